// Tests that cause bad moments of a consumer group, with KafkaJS; no test sleeps.
import assert from 'node:assert/strict'
import { once, EventEmitter } from 'node:events'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import kafkajs from 'kafkajs'
import { Coordinator } from 'kafka-group-shim'

const everything = { orders: [0, 1, 2, 3] }
let shim
let group
let members = []

before(async () => (shim = await Coordinator.start('--topic', 'orders:4', '--brokers', '2')))
after(() => shim.stop())
beforeEach((context) => (group = context.name))
afterEach(async () => {
  await Promise.all(members.splice(0).map((member) => member.disconnect()))
  assert.deepEqual((await shim.delete('/v1/faults')).unfired, [])
})

const kafka = (clientId) =>
  new kafkajs.Kafka({ clientId, brokers: shim.bootstrap, logLevel: kafkajs.logLevel.NOTHING, retry: { initialRetryTime: 50 } })

// A scripted member with the assignor of KafkaJS.
const puppet = (fields) => shim.puppet(group, ['orders'], { protocols: ['RoundRobinAssigner'], ...fields })

// The consumer under test, after it has joined; its `records` emits an event for each record.
async function join(name) {
  const consumer = kafka(name).consumer({
    groupId: group, sessionTimeout: 45_000, heartbeatInterval: 100, maxWaitTimeInMs: 100,
    retry: { initialRetryTime: 50, retries: 10 },
  })
  members.push(consumer)
  consumer.records = new EventEmitter()
  consumer.offsets = []
  await consumer.subscribe({ topics: ['orders'], fromBeginning: true })
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ message }) => {
      consumer.offsets.push(Number(message.offset))
      consumer.records.emit('record')
    },
  })
  return consumer
}

test('a session expires when the clock is put forward', async () => {
  await join('real')
  const { puppet: silent } = await puppet({ client_id: 'silent', session_timeout: 6 })
  await shim.await(group, 'stable', { members: ['real', 'silent'] })
  await shim.post(`/v1/puppets/${silent}`, { do: 'silence' })
  await shim.advance(7)
  await shim.await(group, 'stable', { members: 1, owners: { real: everything } })
  const { rebalance } = await shim.get(`/v1/groups/${encodeURIComponent(group)}`)
  assert.equal(rebalance.cause, 'SESSION_EXPIRED')
  await shim.post('/v1/clock', { frozen: false })
})

test('a rewound group consumes again, and nothing from before', async () => {
  const real = await join('real')
  const producer = kafka('producer').producer()
  await producer.connect()
  for (let number = 0; number < 3; number++) {
    await producer.send({ topic: 'orders', messages: [{ partition: 0, value: `order ${number}` }] })
  }
  await producer.disconnect()
  await shim.await(group, 'committed', { topic: 'orders', partition: 0, at_least: 3 })
  const offsets = [{ topic: 'orders', partition: 0, offset: 1 }]
  await shim.post(`/v1/groups/${encodeURIComponent(group)}/rewind`, { offsets, timeout: 20 })
  while (real.offsets.length < 5) await once(real.records, 'record')
  assert.deepEqual(real.offsets, [0, 1, 2, 1, 2])
})

test('R04: who is called to rejoin keeps its member id', async () => {
  await join('real')
  const { leader } = await shim.await(group, 'stable', { members: 1 })
  await shim.fault('error', 'Heartbeat', { group, error: 'REBALANCE_IN_PROGRESS' })
  assert.equal((await shim.await(group, 'stable', { generation: 2 })).leader, leader)
})

test('R07: a coordinator that moves leaves no ghost', async () => {
  await join('real')
  await shim.await(group, 'stable', { members: 1 })
  await shim.fault('error', 'JoinGroup', { client_id: 'real', group, error: 'NOT_COORDINATOR' })
  const { coordinator } = await shim.get(`/v1/groups/${encodeURIComponent(group)}`)
  await shim.post(`/v1/groups/${encodeURIComponent(group)}/move`, { broker: 3 - coordinator })
  await puppet({ client_id: 'second' })
  await shim.await(group, 'stable', { members: ['real', 'second'] })
  await shim.await(group, 'no-rebalance', { heartbeats: 3 })
})

test('R08: followers keep alive while the leader takes its time', async () => {
  await puppet({ client_id: 'leader', think: 1.5 })
  await shim.await(group, 'stable', { members: 1 })
  await join('real')
  await shim.await(group, 'stable', { members: ['leader', 'real'] })
  await shim.await(group, 'no-rebalance', { heartbeats: 3 })
  const { story } = await shim.get(`/v1/groups/${encodeURIComponent(group)}/story`)
  assert.ok(!story.some((line) => line.includes('not heard of')), story.join('\n'))
})

test('R17: a member that closes says so', async () => {
  await puppet({ client_id: 'other' })
  const real = await join('real')
  await shim.await(group, 'stable', { members: ['other', 'real'] })
  await real.disconnect()
  await shim.await(group, 'event', { event: 'exchange', fields: { api: 'LeaveGroup' } })
  await shim.await(group, 'stable', { members: 1, owners: { other: everything } })
})

test('R18: two members join with one id each', async () => {
  await Promise.all([join('a'), join('b')])
  await shim.await(group, 'stable', { members: ['a', 'b'] })
  assert.ok((await shim.await(group, 'no-rebalance', { heartbeats: 3 })).generation <= 2)
})

test('R19: a coordinator that is loading is asked again', async () => {
  const loading = { group, error: 'COORDINATOR_LOAD_IN_PROGRESS', times: 3 }
  const { fault } = await shim.fault('error', 'JoinGroup', loading)
  await join('real')
  await shim.await(group, 'stable', { members: 1 })
  assert.equal((await shim.get(`/v1/faults/${fault}`)).fired, 3)
})
