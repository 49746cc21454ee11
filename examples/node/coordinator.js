// A coordinator for tests: a process of kafka-shim, and its control API over HTTP.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

export class Coordinator {
  // Starts it, with more options of `kafka-shim serve`; $KAFKA_SHIM is the command if it is not on the path.
  static async start(...options) {
    const process = spawn(
      globalThis.process.env.KAFKA_SHIM ?? 'kafka-shim',
      ['serve', '--lab', '--store', 'memory:', '--listen', '127.0.0.1:0', '--control', '127.0.0.1:0',
        '--config', 'group.initial.rebalance.delay.ms=0', '--config', 'group.min.session.timeout.ms=1', ...options],
      { stdio: ['ignore', 'pipe', 'ignore'] },
    )
    for await (const line of createInterface({ input: process.stdout })) {
      const ready = /^ready kafka=(\S+) control=(\S+)$/.exec(line)
      if (ready) return new Coordinator(process, ready[1].split(','), ready[2])
    }
    throw new Error('kafka-shim does not start')
  }

  constructor(process, brokers, control) {
    Object.assign(this, { process, brokers, control })
  }

  stop() {
    this.process.kill()
  }

  get(path) {
    return this.#ask('GET', path)
  }

  post(path, body = {}) {
    return this.#ask('POST', path, body)
  }

  delete(path) {
    return this.#ask('DELETE', path)
  }

  // Waits for what becomes of a group: stable, owns, empty, committed, event or no-rebalance.
  await(group, what, fields = {}) {
    return this.post(`/v1/groups/${encodeURIComponent(group)}/await`, { for: what, ...fields })
  }

  // A scripted member of a group of topic orders, with the assignor of KafkaJS.
  puppet(group, fields = {}) {
    return this.post('/v1/puppets', { group, topics: ['orders'], protocols: ['RoundRobinAssigner'], ...fields })
  }

  async #ask(method, path, body) {
    const headers = { 'Content-Type': 'application/json' }
    const response = await fetch(this.control + path, { method, headers, body: body && JSON.stringify(body) })
    const answer = await response.json()
    // The message of an await in vain tells the story of the group.
    if (!response.ok) throw new Error(answer.message)
    return answer
  }
}
