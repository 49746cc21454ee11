/** An object of the control API; docs/http.md and /openapi.json describe its fields. */
export type Fields = Record<string, unknown>

export class Coordinator {
  /** Starts a coordinator with these options of `kafka-shim serve`; $KAFKA_SHIM is the command if it is not on the path. */
  static start(...options: string[]): Promise<Coordinator>
  /** The addresses of its brokers, HOST:PORT. */
  readonly bootstrap: string[]
  /** The URL of its control server. */
  readonly control: string
  /** Ends the process; resolves when it has ended. */
  stop(): Promise<void>
  get(path: string): Promise<any>
  post(path: string, body?: Fields): Promise<any>
  delete(path: string): Promise<any>
  /** Waits for a condition of a group. Its error has the history of the group. */
  await(group: string, what: 'stable' | 'owns' | 'empty' | 'committed' | 'event' | 'no-rebalance' | 'no-commit', fields?: Fields): Promise<any>
  /** Adds a scripted member to a group. */
  puppet(group: string, topics: string[], fields?: Fields): Promise<any>
  /** Makes the coordinator misbehave. */
  fault(
    action: 'error' | 'delay' | 'drop' | 'swallow' | 'close' | 'duplicate' | 'half-open' | 'slow',
    api: string,
    fields?: Fields,
  ): Promise<any>
  /** Advances the clock of the coordinator, which stands still from then on. */
  advance(seconds: number): Promise<void>
  /** What happened after the event of this number, in lines a person reads; 0 is all. */
  story(since?: number): Promise<string[]>
  /** Writes the events so far as a trace file, for `kafka-shim why` and its page. */
  writeTrace(path: string): Promise<void>
  /** Runs the body of a test. If it fails, its error has the story of the test and the path of its trace. */
  telling<T>(run: () => T | Promise<T>): Promise<T>
}
