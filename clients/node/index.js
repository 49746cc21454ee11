// A coordinator for tests: a process of kafka-shim (pip install 'kafka-group-shim[cli]'), and its control API, docs/http.md.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

// Lines of a story that a failed test shows.
const STORY_LINES = 200

export class Coordinator {
  #process

  // Starts a coordinator with these options of `kafka-shim serve`; $KAFKA_SHIM is the command if it is not on the path.
  // Short session timeouts are allowed, there is no initial rebalance delay and no interval between two assignments, and
  // members of the newer kinds of groups send heartbeats every 50 ms. Options of yours come later and win.
  static async start(...options) {
    const child = spawn(
      process.env.KAFKA_SHIM ?? 'kafka-shim',
      ['serve', '--lab', '--store', 'memory:', '--listen', '127.0.0.1:0', '--control', '127.0.0.1:0', '--log-level', 'error',
        '--config', 'group.initial.rebalance.delay.ms=0', '--config', 'group.min.session.timeout.ms=1',
        '--config', 'group.consumer.assignment.interval.ms=0', '--config', 'group.share.assignment.interval.ms=0',
        '--config', 'group.streams.assignment.interval.ms=0', '--config', 'group.streams.initial.rebalance.delay.ms=0',
        '--config', 'group.consumer.heartbeat.interval.ms=50', '--config', 'group.share.heartbeat.interval.ms=50',
        '--config', 'group.streams.heartbeat.interval.ms=50', ...options],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    )
    let said = ''
    child.stderr.on('data', (text) => (said += text))
    child.on('error', (error) => {
      said += `${error.message} (pip install 'kafka-group-shim[cli]', or set KAFKA_SHIM to the command)`
    })
    const ended = once(child, 'close').catch(() => {})
    for await (const line of createInterface({ input: child.stdout })) {
      const ready = /^ready kafka=(\S+) control=(\S+)/.exec(line)
      if (ready) return new Coordinator(child, ready[1].split(','), ready[2])
    }
    await ended
    throw new Error(`kafka-shim did not start: ${said.trim()}`)
  }

  constructor(child, bootstrap, control) {
    this.#process = child
    this.bootstrap = bootstrap
    this.control = control
  }

  // Ends the process; resolves when it has ended.
  async stop() {
    const ended = once(this.#process, 'close')
    this.#process.kill()
    await ended
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

  // Waits for a condition of a group: stable, owns, empty, committed, event, no-rebalance or no-commit. Its error has the
  // history of the group.
  await(group, what, fields = {}) {
    return this.post(`/v1/groups/${encodeURIComponent(group)}/await`, { ...fields, for: what })
  }

  // Adds a scripted member to a group.
  puppet(group, topics, fields = {}) {
    return this.post('/v1/puppets', { ...fields, group, topics })
  }

  // Makes the coordinator misbehave; docs/testing.md has the actions.
  fault(action, api, fields = {}) {
    return this.post('/v1/faults', { ...fields, action, api })
  }

  // Advances the clock of the coordinator, which stands still from then on.
  async advance(seconds) {
    await this.post('/v1/clock', { frozen: true })
    await this.post('/v1/clock', { advance: seconds })
  }

  // What happened after the event of this number, in lines a person reads; 0 is all.
  async story(since = 0) {
    return (await this.get(`/v1/story?since=${since}`)).story
  }

  // Writes the events so far as a trace file, for `kafka-shim why` and its page.
  async writeTrace(path) {
    const response = await fetch(`${this.control}/v1/trace`)
    await writeFile(path, await response.text())
  }

  // Runs the body of a test. If it fails, its error has the story of the test and the path of its trace.
  async telling(run) {
    const { newest } = await this.get('/v1/server')
    try {
      return await run()
    } catch (error) {
      // Test runners print the stack.
      if (error instanceof Error) error.stack += `\n${await this.#told(newest)}`
      throw error
    }
  }

  async #told(since) {
    try {
      const story = await this.story(since)
      const leftOut = Math.max(0, story.length - STORY_LINES)
      const trace = join(await mkdtemp(join(tmpdir(), 'kafka-shim-')), 'trace.jsonl')
      await this.writeTrace(trace)
      const before = leftOut ? [`(${leftOut} lines before these)`] : []
      return ['The story of the test:', ...before, ...story.slice(leftOut), `The trace: ${trace}`].join('\n')
    } catch (error) {
      return `kafka-shim does not tell the story: ${error.message}`
    }
  }

  async #ask(method, path, body) {
    const headers = { 'Content-Type': 'application/json' }
    const response = await fetch(this.control + path, { method, headers, body: body && JSON.stringify(body) })
    const answer = await response.json()
    if (!response.ok) throw new Error(`${method} ${path}: ${answer.message}`)
    return answer
  }
}
