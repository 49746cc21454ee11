// Confluent's client for JavaScript (librdkafka), by its promises, behind the line protocol of lines.py.
'use strict'

const readline = require('readline')
const { Kafka, ErrorCodes } = require('@confluentinc/kafka-javascript').KafkaJS

const config = JSON.parse(process.argv[2])
const emit = (message) => process.stdout.write(JSON.stringify(message) + '\n')
const partitions = (list) => list.map(({ topic, partition }) => [topic, partition])
const fail = (error) => emit({ event: 'error', name: String(error.code ?? error.name), text: error.message })
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000))
const log = (text) => console.error(text)
const logger = { info: log, error: log, warn: log, debug: log, namespace: () => logger, setLogLevel: () => {} }

let owned = []
const positions = new Map()
// It shows neither the generation nor the member id.
const owns = () => emit({ event: 'owns', partitions: owned, generation: -1, member: '' })

const rebalance = async (error, assignment, { assign, assignmentLost }) => {
  const eager = consumer.rebalanceProtocol() === 'EAGER'
  const concerned = partitions(assignment)
  if (error.code === ErrorCodes.ERR__ASSIGN_PARTITIONS) {
    owned = eager ? concerned : [...owned, ...concerned]
    emit({ event: 'assigned', partitions: concerned })
    const offset = config.assign_seek
    assign(offset === undefined ? assignment : assignment.map((each) => ({ ...each, offset })))
    return owns()
  }
  emit({ event: assignmentLost() ? 'lost' : 'revoked', partitions: concerned })
  if (config.revoke_commit) await consumer.commitOffsets([...positions.values()])
  if (config.revoke_s) await sleep(config.revoke_s)
  const gone = new Set(concerned.map(String))
  owned = eager ? [] : owned.filter((each) => !gone.has(String(each)))
  owns()
}

const options = {
  'group.id': config.group,
  'auto.offset.reset': 'earliest',
  'enable.auto.commit': false,
  'fetch.wait.max.ms': 100,
  'topic.metadata.refresh.interval.ms': config.metadata_ms,
  'session.timeout.ms': config.session_ms,
  'heartbeat.interval.ms': config.heartbeat_ms,
  'partition.assignment.strategy': config.assignors && config.assignors.join(','),
  'group.instance.id': config.instance,
  rebalance_cb: rebalance,
}
const kafka = new Kafka({
  kafkaJS: { brokers: [config.bootstrap], clientId: config.client_id, logger },
})
const consumer = kafka.consumer(Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)))

const commit = ({ offsets }) =>
  consumer.commitOffsets(offsets.map(([topic, partition, offset]) => ({ topic, partition, offset: String(offset) })))
const byTopic = (fields) => fields.partitions.map(([topic, number]) => ({ topic, partitions: [number] }))

let going = Promise.resolve()
let go = () => {}
const doings = {
  hold: async () => {
    going = new Promise((resolve) => (go = resolve))
  },
  go: async () => go(),
  commit,
  commit_async: commit,
  pause: async (fields) => consumer.pause(byTopic(fields)),
  resume: async (fields) => consumer.resume(byTopic(fields)),
  seek: async ({ offsets }) => {
    for (const [topic, partition, offset] of offsets) consumer.seek({ topic, partition, offset: String(offset) })
  },
  close: async () => {
    go()
    await consumer.disconnect()
  },
}

const carryOut = async ({ id, do: name, ...fields }) => {
  try {
    await doings[name](fields)
    emit({ reply: id, value: null })
  } catch (error) {
    emit({ reply: id, error: String(error.code ?? error.name), text: error.message })
  }
  if (name === 'close') {
    emit({ event: 'closed' })
    process.exit(0)
  }
}

const main = async () => {
  emit({ event: 'started' })
  readline
    .createInterface({ input: process.stdin })
    .on('line', (line) => carryOut(JSON.parse(line)))
    .on('close', () => process.exit(0))
  await consumer.connect()
  await consumer.subscribe({ topics: config.topics })
  await consumer.run({
    eachMessage: async ({ topic, partition, message: { offset, key, value } }) => {
      await going
      positions.set(`${topic}:${partition}`, { topic, partition, offset: String(Number(offset) + 1) })
      emit({ event: 'records', topic, partition, records: [[Number(offset), key && key.toString(), String(value), []]] })
    },
  })
}

main().catch(fail)
