// node-rdkafka behind the line protocol of lines.py.
'use strict'

const readline = require('readline')
const Kafka = require('node-rdkafka')

const config = JSON.parse(process.argv[2])
const emit = (message) => process.stdout.write(JSON.stringify(message) + '\n')
const fail = (error) => emit({ event: 'error', name: `code ${error.code}`, text: error.message })
const listed = (partitions) => partitions.map(({ topic, partition }) => [topic, partition])

let held = false
let owned = []

const own = (name, partitions, now) => {
  owned = now
  emit({ event: name, partitions: listed(partitions) })
}

// It tells neither its generation nor its member id.
const tell = () => emit({ event: 'owns', partitions: listed(owned), generation: -1, member: '' })

const consumer = new Kafka.KafkaConsumer(
  {
    'bootstrap.servers': config.bootstrap,
    'client.id': config.client_id,
    'group.id': config.group,
    'session.timeout.ms': config.session_ms,
    'heartbeat.interval.ms': config.heartbeat_ms,
    'topic.metadata.refresh.interval.ms': config.metadata_ms,
    'partition.assignment.strategy': (config.assignors ?? ['range', 'roundrobin']).join(','),
    'fetch.wait.max.ms': 100,
    'enable.auto.commit': false,
    ...(config.instance && { 'group.instance.id': config.instance }),
    ...(config.max_poll_ms && { 'max.poll.interval.ms': config.max_poll_ms }),
    rebalance_cb: (change, partitions) => {
      if (change.code === Kafka.CODES.ERRORS.ERR__ASSIGN_PARTITIONS) {
        own('assigned', partitions, partitions)
        consumer.assign(partitions)
        tell()
      } else {
        own('revoked', partitions, [])
        setTimeout(() => {
          consumer.unassign()
          tell()
        }, (config.revoke_s ?? 0) * 1000)
      }
    },
    offset_commit_cb: (error, partitions) => committed(error, partitions),
  },
  { 'auto.offset.reset': 'earliest' },
)

const awaited = []
const committed = (error, partitions) => {
  const failure = error ?? partitions.map((each) => each.error).find(Boolean)
  const id = awaited.shift()
  if (id !== undefined) emit(failure ? { reply: id, error: 'refused', text: String(failure.message) } : { reply: id, value: null })
}

const poll = () => {
  if (held) return
  consumer.consume(100, (error, messages) => {
    if (error) fail(error)
    for (const { topic, partition, offset, key, value } of messages ?? []) {
      emit({ event: 'records', topic, partition, records: [[offset, key && key.toString(), String(value), []]] })
    }
    setImmediate(poll)
  })
}

const doings = {
  hold: () => (held = true),
  go: () => {
    held = false
    poll()
  },
}

const carryOut = ({ id, do: name, offsets }) => {
  try {
    if (name === 'commit' || name === 'commit_async') {
      awaited.push(id)
      consumer.commit(offsets.map(([topic, partition, offset]) => ({ topic, partition, offset })))
    } else if (name === 'close') {
      consumer.disconnect(() => {
        emit({ reply: id, value: null })
        emit({ event: 'closed' })
        process.exit(0)
      })
    } else {
      doings[name]()
      emit({ reply: id, value: null })
    }
  } catch (error) {
    emit({ reply: id, error: `code ${error.code}`, text: error.message })
  }
}

emit({ event: 'started' })
readline
  .createInterface({ input: process.stdin })
  .on('line', (line) => carryOut(JSON.parse(line)))
  .on('close', () => process.exit(0))
consumer.setDefaultConsumeTimeout(100)
consumer.on('event.error', fail)
consumer.on('ready', () => {
  consumer.subscribe(config.topics)
  poll()
})
consumer.connect({}, (error) => error && fail(error))
