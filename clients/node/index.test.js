import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { Coordinator } from 'kafka-group-shim'

const started = async (context, ...options) => {
  const shim = await Coordinator.start(...options)
  context.after(() => shim.stop())
  return shim
}

test('a member that is silent is expelled when the clock moves', async (context) => {
  const shim = await started(context, '--topic', 'orders:4')
  await shim.puppet('team/billing', ['orders'], { client_id: 'a' })
  const { puppet } = await shim.puppet('team/billing', ['orders'], { client_id: 'b', session_timeout: 6 })
  await shim.await('team/billing', 'stable', { members: ['a', 'b'] })
  await shim.post(`/v1/puppets/${puppet}`, { do: 'silence' })
  await shim.advance(7)
  await shim.await('team/billing', 'stable', { members: ['a'] })
  const { rebalance } = await shim.get('/v1/groups/team%2Fbilling')
  assert.equal(rebalance.cause, 'SESSION_EXPIRED')
})

test('a member of each newer kind of group takes over soon', async (context) => {
  const shim = await started(context, '--topic', 'orders:4')
  for (const kind of ['consumer', 'share', 'streams']) {
    const { puppet } = await shim.puppet(kind, ['orders'], { kind, client_id: 'a' })
    await shim.puppet(kind, ['orders'], { kind, client_id: 'b' })
    await shim.await(kind, 'stable', { members: ['a', 'b'], timeout: 4 })
    await shim.post(`/v1/puppets/${puppet}`, { do: 'leave' })
    await shim.await(kind, 'stable', { members: ['b'], timeout: 4 })
  }
})

test('a fault that never happened is named', async (context) => {
  const shim = await started(context)
  await shim.fault('error', 'Heartbeat', { error: 'REBALANCE_IN_PROGRESS' })
  assert.equal((await shim.delete('/v1/faults')).unfired.length, 1)
})

test('an error is the sentence of the server', async (context) => {
  const shim = await started(context)
  await assert.rejects(shim.get('/v1/groups/nobody'), /no such group/)
  await assert.rejects(Coordinator.start('--no-such-option'), /--no-such-option/)
})

test('it is gone when it is stopped', async () => {
  const shim = await Coordinator.start('--brokers', '2')
  await shim.stop()
  assert.equal(shim.bootstrap.length, 2)
  const [host, port] = shim.bootstrap[0].split(':')
  const [error] = await once(connect(Number(port), host), 'error')
  assert.equal(error.code, 'ECONNREFUSED')
})

test('the story and the trace are there', async (context) => {
  const shim = await started(context, '--topic', 'orders:4')
  await shim.puppet('billing', ['orders'], { client_id: 'teller' })
  await shim.await('billing', 'stable', { members: 1 })
  assert.ok((await shim.story()).some((line) => line.includes('teller joins')))
  const folder = await mkdtemp(join(tmpdir(), 'kafka-shim-'))
  await shim.writeTrace(join(folder, 'trace.jsonl'))
  const trace = await readFile(join(folder, 'trace.jsonl'), 'utf8')
  assert.ok(trace.includes('"client_id":"teller"'))
  await rm(folder, { recursive: true })
})

test('a failed test has its story and its trace', async (context) => {
  const shim = await started(context, '--topic', 'orders:4')
  await shim.puppet('before', ['orders'], { client_id: 'earlier' })
  await shim.await('before', 'stable', { members: 1 })
  const body = async () => {
    await shim.puppet('billing', ['orders'], { client_id: 'teller' })
    await shim.await('billing', 'stable', { members: 1 })
    assert.equal(1, 2)
  }
  const error = await shim.telling(body).catch((error) => error)
  assert.equal(error.code, 'ERR_ASSERTION')
  assert.match(error.stack, /teller joins/)
  assert.doesNotMatch(error.stack, /earlier joins/)
  const path = /The trace: (.*)/.exec(error.stack)[1]
  assert.ok((await readFile(path, 'utf8')).includes('"client_id":"teller"'))
  await rm(dirname(path), { recursive: true })
  assert.equal(await shim.telling(() => 5), 5)
})

test('a server that is gone tells no story', async () => {
  const shim = await Coordinator.start()
  const error = await shim.telling(async () => {
    await shim.stop()
    throw new Error('mine')
  }).catch((error) => error)
  assert.equal(error.message, 'mine')
  assert.match(error.stack, /does not tell the story/)
})
