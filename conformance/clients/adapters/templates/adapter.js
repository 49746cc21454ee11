// An adapter of a client of yours for `kafka-shim conformance --adapter "node adapter.js"`.
// Fill in the methods of Client; the rest is the line protocol, which docs/clients.md describes.
'use strict'

const readline = require('readline')

const description = { name: 'my-client-1.0', protocols: ['classic'], assignors: ['range'], static: false, abilities: [] }
const emit = (message) => process.stdout.write(JSON.stringify(message) + '\n')

class Client {
  // Make a consumer of config.topics at config.bootstrap, with auto commit off, earliest first, and let it run until
  // `hold`. It emits, as things happen:
  //   { event: 'assigned' | 'revoked' | 'lost', partitions: [['topic', 0]] }
  //   { event: 'owns', partitions: [['topic', 0]], generation: 3, member: 'id' }
  //   { event: 'records', topic: 'topic', partition: 0, records: [[17, null, 'value', []]] }
  constructor(config) {
    this.config = config
  }

  // Poll no more until `go`, as if busy with a record.
  async hold() {}

  async go() {}

  // Commit [['topic', 0, 17]] and wait for it.
  async commit(offsets) {
    throw new Error('commit is not written yet')
  }

  // Leave the group in good order.
  async close() {}
}

const main = () => {
  if (process.argv[2] === 'describe') {
    console.log(JSON.stringify(description))
    return
  }
  const client = new Client(JSON.parse(process.argv[2]))
  const doings = {
    hold: () => client.hold(),
    go: () => client.go(),
    commit: ({ offsets }) => client.commit(offsets),
    commit_async: ({ offsets }) => client.commit(offsets),
    close: () => client.close(),
  }
  const carryOut = async (command) => {
    try {
      if (!doings[command.do]) throw new Error(`${command.do} is not written yet`)
      await doings[command.do](command)
      emit({ reply: command.id, value: null })
    } catch (error) {
      emit({ reply: command.id, error: error.name, text: error.message })
    }
    if (command.do === 'close') {
      emit({ event: 'closed' })
      process.exit(0)
    }
  }
  readline
    .createInterface({ input: process.stdin })
    .on('line', (line) => carryOut(JSON.parse(line)))
    .on('close', () => process.exit(0))
  emit({ event: 'started' })
}

main()
