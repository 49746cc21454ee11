/** An object of the control API; docs/http.md and /openapi.json say its fields. */
export type Fields = Record<string, unknown>

export class Coordinator {
  /** Starts one with more options of `kafka-shim serve`; $KAFKA_SHIM is the command if it is not on the path. */
  static start(...options: string[]): Promise<Coordinator>
  /** The addresses of its brokers, HOST:PORT. */
  readonly brokers: string[]
  /** The URL of its control server. */
  readonly control: string
  /** Ends the process; resolves when it is gone. */
  stop(): Promise<void>
  get(path: string): Promise<any>
  post(path: string, body?: Fields): Promise<any>
  delete(path: string): Promise<any>
  /** Waits for what becomes of a group. Its error has the story of the group. */
  await(group: string, what: 'stable' | 'owns' | 'empty' | 'committed' | 'event' | 'no-rebalance', fields?: Fields): Promise<any>
  /** A scripted member of a group. */
  puppet(group: string, topics: string[], fields?: Fields): Promise<any>
  /** Has it misbehave. */
  fault(
    action: 'error' | 'delay' | 'drop' | 'swallow' | 'close' | 'duplicate' | 'half-open' | 'slow',
    api: string,
    fields?: Fields,
  ): Promise<any>
  /** Moves its clock, which stands still from then on. */
  advance(seconds: number): Promise<void>
}
