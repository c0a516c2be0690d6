/** What the browser says without being asked. */
export interface BrowserEvent {
  readonly method: string;
  readonly sessionId?: string;
  readonly params: Readonly<Record<string, unknown>>;
}

/** An answer, or an event. */
type Message =
  & { readonly id?: number; readonly error?: { readonly message: string } }
  & { readonly result?: unknown }
  & Partial<BrowserEvent>;

/** The Chrome DevTools Protocol over a WebSocket. */
export class DevTools implements Disposable {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  readonly #listeners = new Set<(event: BrowserEvent) => void>();
  #calls = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => this.#hear(data));
    socket.addEventListener("close", () => this.#fail("the browser has gone"));
  }

  /** Connects to the browser at this URL. */
  static async connect(url: string): Promise<DevTools> {
    const socket = new WebSocket(url);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    socket.addEventListener("open", () => resolve());
    socket.addEventListener(
      "error",
      () => reject(new Error(`Cannot connect to the browser at "${url}"`)),
    );
    await promise;
    return new DevTools(socket);
  }

  /** Calls a method, of a page if there is a session. @throws {Error} what the browser says */
  async call<T>(
    method: string,
    params: object = {},
    sessionId?: string,
  ): Promise<T> {
    const id = ++this.#calls;
    const answer = Promise.withResolvers<unknown>();
    this.#waiting.set(id, answer);
    this.#socket.send(JSON.stringify({ id, method, params, sessionId }));
    // The caller names the type: the protocol's description has it.
    return await answer.promise as T;
  }

  /** Calls back for each event. */
  listen(listener: (event: BrowserEvent) => void): void {
    this.#listeners.add(listener);
  }

  [Symbol.dispose](): void {
    this.#socket.close();
  }

  #hear(data: string): void {
    const { id, error, result, ...event }: Message = JSON.parse(data);
    if (id === undefined) {
      const { method = "", params = {}, sessionId } = event;
      for (const listener of this.#listeners) {
        listener({ method, params, ...sessionId && { sessionId } });
      }
      return;
    }
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(result);
    else waiting?.reject(new Error(`The browser refuses: ${error.message}`));
  }

  #fail(why: string): void {
    for (const { reject } of this.#waiting.values()) reject(new Error(why));
    this.#waiting.clear();
  }
}
