// node-rdkafka (librdkafka) behind the line protocol of lines.py.
'use strict'

const readline = require('readline')
const { CODES, KafkaConsumer } = require('node-rdkafka')

const config = JSON.parse(process.argv[2])
const emit = (message) => process.stdout.write(JSON.stringify(message) + '\n')
const partitions = (list) => list.map(({ topic, partition }) => [topic, partition])
const places = (list) => list.map(([topic, partition, offset]) => ({ topic, partition, offset }))
const fail = (error) => emit({ event: 'error', name: String(error.code ?? error.name), text: error.message })

// Not `consumer.rebalanceProtocol()`, which is NONE when the next rebalance has begun before this is called.
const cooperative = (config.assignors ?? []).includes('cooperative-sticky')
const rebalance = (error, assignment) => {
  if (error.code === CODES.ERRORS.ERR__ASSIGN_PARTITIONS) {
    emit({ event: 'assigned', partitions: partitions(assignment) })
    const offset = config.assign_seek
    const placed = offset === undefined ? assignment : assignment.map((each) => ({ ...each, offset }))
    cooperative ? consumer.incrementalAssign(placed) : consumer.assign(placed)
    owns()
    if (config.assign_unsubscribe) consumer.unsubscribe()
    return
  }
  emit({ event: 'revoked', partitions: partitions(assignment) })
  if (config.revoke_commit) consumer.commitSync(null)
  const release = () => {
    try {
      cooperative ? consumer.incrementalUnassign(assignment) : consumer.unassign()
      owns()
    } catch (error) {
      // While it closes this may fail, which its own listener ignores too.
      if (consumer.isConnected()) fail(error)
    }
  }
  config.revoke_s ? setTimeout(release, config.revoke_s * 1000) : release()
}

const commits = []
const committed = (error) => {
  const number = commits.shift()
  if (number === undefined) return
  emit(error ? { reply: number, error: String(error.code), text: error.message } : { reply: number, value: null })
}

const optional = {
  'group.instance.id': config.instance,
  'max.poll.interval.ms': config.max_poll_ms,
  'partition.assignment.strategy': config.assignors && config.assignors.join(','),
  debug: config.verbose && 'cgrp',
}
const consumer = new KafkaConsumer(
  {
    'bootstrap.servers': config.bootstrap,
    'client.id': config.client_id,
    'group.id': config.group,
    'session.timeout.ms': config.session_ms,
    'heartbeat.interval.ms': config.heartbeat_ms,
    'topic.metadata.refresh.interval.ms': config.metadata_ms,
    'enable.auto.commit': false,
    'fetch.wait.max.ms': 100,
    rebalance_cb: rebalance,
    offset_commit_cb: committed,
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)),
  },
  { 'auto.offset.reset': 'earliest' },
)
consumer.setDefaultConsumeTimeout(100)

// It shows neither the generation nor the member id.
const owns = () =>
  emit({ event: 'owns', partitions: partitions(consumer.assignments()), generation: -1, member: '' })

let held = false
let polling = false
const poll = () => {
  if (held || polling) return
  polling = true
  consumer.consume(50, (error, messages = []) => {
    polling = false
    if (error) fail(error)
    for (const { topic, partition, offset, key, value } of messages) {
      emit({ event: 'records', topic, partition, records: [[offset, key && key.toString(), String(value), []]] })
    }
    setImmediate(poll)
  })
}

const doings = {
  hold: () => {
    held = true
  },
  go: () => {
    held = false
    poll()
  },
  commit: ({ offsets }) => consumer.commitSync(places(offsets)),
  pause: (fields) => consumer.pause(places(fields.partitions)),
  resume: (fields) => consumer.resume(places(fields.partitions)),
  seek: async ({ offsets }) => {
    for (const place of places(offsets)) {
      await new Promise((resolve, reject) =>
        consumer.seek(place, 5000, (error) => (error ? reject(error) : resolve())),
      )
    }
  },
  close: () => {
    held = true
    return new Promise((resolve) => consumer.disconnect(resolve))
  },
}

const carryOut = async ({ id, do: name, ...fields }) => {
  try {
    if (name === 'commit_async') {
      commits.push(id)
      consumer.commit(places(fields.offsets))
      return
    }
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

emit({ event: 'started' })
readline
  .createInterface({ input: process.stdin })
  .on('line', (line) => carryOut(JSON.parse(line)))
  .on('close', () => process.exit(0))
consumer
  .on('event.error', fail)
  .on('event.log', ({ fac, message }) => console.error(fac, message))
  .on('ready', () => {
    consumer.subscribe(config.topics)
    poll()
  })
consumer.connect({}, (error) => error && fail(error))
