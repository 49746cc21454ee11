import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { after, before, test } from 'node:test'
import kafkajs from 'kafkajs'
import { Coordinator } from 'kafka-group-shim'

let shim
before(async () => (shim = await Coordinator.start('--topic', 'orders:1')))
after(() => shim.stop())

// A test that somebody asked for in public: https://github.com/tulios/kafkajs/pull/367 (KafkaJS, 2019), where no test could
// meet the moment.
test('a seek discards what a fetch under way brings', () =>
  shim.telling(async () => {
    const produce = (...values) => shim.post('/v1/topics/orders/records', { values })
    const kafka = new kafkajs.Kafka({ clientId: 'mine', brokers: shim.bootstrap, logLevel: kafkajs.logLevel.NOTHING })
    const consumer = kafka.consumer({ groupId: 'billing', maxWaitTimeInMs: 100 })
    const records = new EventEmitter()
    const values = []
    const until = async (last) => {
      while (values.at(-1) !== last) await once(records, 'record')
    }
    await produce('a', 'b')
    await consumer.subscribe({ topics: ['orders'], fromBeginning: true })
    await consumer.run({
      eachMessage: async ({ message }) => {
        values.push(String(message.value))
        records.emit('record')
      },
    })
    await until('b')
    const { barrier } = await shim.post('/v1/barriers', { point: 'Fetch', client_id: 'mine' })
    await shim.post(`/v1/barriers/${barrier}/await`, { requests: 1 })
    await produce('c')
    consumer.seek({ topic: 'orders', partition: 0, offset: '1' })
    await shim.delete(`/v1/barriers/${barrier}`)
    await until('c')
    assert.deepEqual(values, ['a', 'b', 'b', 'c'])
    await consumer.disconnect()
  }))
