// KafkaJS behind the line protocol of lines.py.
'use strict'

const fs = require('fs')
const readline = require('readline')
const { Kafka, logLevel, PartitionAssigners } = require('kafkajs')

const config = JSON.parse(process.argv[2])
const emit = (message) => process.stdout.write(JSON.stringify(message) + '\n')
// The security of a listener with SASL_SSL.
const secured = ({ ca, mechanism, user: username, password, token }) => ({
  ssl: { ca: [fs.readFileSync(ca, 'utf8')] },
  sasl: {
    mechanism: mechanism.toLowerCase(),
    ...(token ? { oauthBearerProvider: async () => ({ value: token }) } : { username, password }),
  },
})
const kafka = new Kafka({
  ...(config.security && secured(config.security)),
  clientId: config.client_id,
  brokers: [config.bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100 },
})
const consumer = kafka.consumer({
  groupId: config.group,
  sessionTimeout: config.session_ms,
  rebalanceTimeout: Math.max(config.session_ms, 10000),
  heartbeatInterval: config.heartbeat_ms,
  metadataMaxAge: config.metadata_ms,
  maxWaitTimeInMs: 100,
  partitionAssigners: [PartitionAssigners.roundRobin],
})

let going = Promise.resolve()
let go = () => {}
let owned = []

consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  owned = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) => numbers.map((n) => [topic, n]))
  emit({ event: 'assigned', partitions: owned })
  // KafkaJS does not tell the generation.
  emit({ event: 'owns', partitions: owned, generation: -1, member: payload.memberId })
})
consumer.on(consumer.events.REBALANCING, () => emit({ event: 'revoked', partitions: owned }))
consumer.on(consumer.events.CRASH, ({ payload }) =>
  emit({ event: 'error', name: payload.error.name, text: payload.error.message })
)

const commit = ({ offsets }) =>
  consumer.commitOffsets(offsets.map(([topic, partition, offset]) => ({ topic, partition, offset: String(offset) })))

const doings = {
  hold: async () => {
    going = new Promise((resolve) => (go = resolve))
  },
  go: async () => go(),
  commit,
  commit_async: commit,
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
    emit({ reply: id, error: error.name, text: error.message })
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
  await consumer.subscribe({ topics: config.topics, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      await going
      const record = [Number(message.offset), message.key && message.key.toString(), String(message.value), []]
      emit({ event: 'records', topic, partition, records: [record] })
    },
  })
}

main().catch((error) => emit({ event: 'error', name: error.name, text: error.message }))
