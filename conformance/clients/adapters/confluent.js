// Confluent's JavaScript client behind the line protocol of lines.py, by its promises.
'use strict'

const readline = require('readline')
const { ErrorCodes, Kafka, PartitionAssigners, logLevel } = require('@confluentinc/kafka-javascript').KafkaJS

const config = JSON.parse(process.argv[2])
const emit = (message) => process.stdout.write(JSON.stringify(message) + '\n')
const fail = (error) => emit({ event: 'error', name: error.type ?? error.name, text: error.message })

let going = Promise.resolve()
let go = () => {}

const listed = (partitions) => partitions.map(({ topic, partition }) => [topic, partition])
const assignors = { range: PartitionAssigners.range, roundrobin: PartitionAssigners.roundRobin }

const consumer = new Kafka({
  kafkaJS: { clientId: config.client_id, brokers: [config.bootstrap], logLevel: logLevel.NOTHING },
}).consumer({
  kafkaJS: {
    groupId: config.group,
    sessionTimeout: config.session_ms,
    heartbeatInterval: config.heartbeat_ms,
    metadataMaxAge: config.metadata_ms,
    maxWaitTimeInMs: 100,
    fromBeginning: true,
    autoCommit: false,
    partitionAssigners: (config.assignors ?? ['range', 'roundrobin']).map((name) => assignors[name]),
  },
  ...(config.instance && { 'group.instance.id': config.instance }),
  rebalance_cb: async (change, partitions) => {
    const assigned = change.code === ErrorCodes.ERR__ASSIGN_PARTITIONS
    emit({ event: assigned ? 'assigned' : 'revoked', partitions: listed(partitions) })
    if (!assigned && config.revoke_s) await new Promise((done) => setTimeout(done, config.revoke_s * 1000))
    // It tells neither its generation nor its member id.
    emit({ event: 'owns', partitions: assigned ? listed(partitions) : [], generation: -1, member: '' })
  },
})

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
    emit({ reply: id, error: error.type ?? error.name, text: error.message })
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
    eachMessage: async ({ topic, partition, message }) => {
      await going
      const record = [Number(message.offset), message.key && message.key.toString(), String(message.value), []]
      emit({ event: 'records', topic, partition, records: [record] })
    },
  })
}

main().catch(fail)
