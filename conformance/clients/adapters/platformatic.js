// @platformatic/kafka behind the line protocol of lines.py.
'use strict'

const readline = require('readline')

const config = JSON.parse(process.argv[2])
const emit = (message) => process.stdout.write(JSON.stringify(message) + '\n')
const fail = (error) => emit({ event: 'error', name: error.code ?? error.name, text: error.message })

let going = Promise.resolve()
let go = () => {}
let consumer

const commit = ({ offsets }) =>
  consumer.commit({
    offsets: offsets.map(([topic, partition, offset]) => ({ topic, partition, offset: BigInt(offset), leaderEpoch: -1 })),
  })

const doings = {
  hold: async () => {
    going = new Promise((resolve) => (go = resolve))
  },
  go: async () => go(),
  commit,
  commit_async: commit,
  close: async () => {
    go()
    await consumer.close(true)
  },
}

const carryOut = async ({ id, do: name, ...fields }) => {
  try {
    await doings[name](fields)
    emit({ reply: id, value: null })
  } catch (error) {
    emit({ reply: id, error: error.code ?? error.name, text: error.message })
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
  const { Consumer, stringDeserializers } = await import('@platformatic/kafka')
  consumer = new Consumer({
    clientId: config.client_id,
    bootstrapBrokers: [config.bootstrap],
    groupId: config.group,
    sessionTimeout: config.session_ms,
    rebalanceTimeout: Math.max(config.session_ms, 10000),
    heartbeatInterval: config.heartbeat_ms,
    metadataMaxAge: config.metadata_ms,
    maxWaitTime: 100,
    autocommit: false,
    deserializers: stringDeserializers,
  })
  let owned = []
  consumer.on('consumer:group:join', ({ memberId, generationId, assignments }) => {
    owned = (assignments ?? []).flatMap(({ topic, partitions }) => partitions.map((number) => [topic, number]))
    emit({ event: 'assigned', partitions: owned })
    emit({ event: 'owns', partitions: owned, generation: generationId, member: memberId })
  })
  consumer.on('consumer:group:rebalance', () => emit({ event: 'revoked', partitions: owned }))
  const stream = await consumer.consume({ topics: config.topics, mode: 'committed', fallbackMode: 'earliest' })
  stream.on('error', fail)
  for await (const { topic, partition, offset, key, value } of stream) {
    await going
    emit({ event: 'records', topic, partition, records: [[Number(offset), key ?? null, value, []]] })
  }
}

main().catch(fail)
