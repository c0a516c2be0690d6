/** Kubelet renews a projected token when a fifth of its life is left, so a minute is soon enough. */
const CACHE_MS = 60_000;

/** A bearer token in a file that is replaced from time to time. */
export class TokenFile {
  readonly #path: string;
  readonly #nowMs: () => number;
  #read:
    | { readonly token: string | undefined; readonly atMs: number }
    | undefined;

  /** `nowMs` is a clock that only goes forward. */
  constructor(path: string, nowMs: () => number = () => performance.now()) {
    this.#path = path;
    this.#nowMs = nowMs;
  }

  /** The token; undefined while there is no file, or an empty one. */
  async token(): Promise<string | undefined> {
    const { token } = await this.#current();
    return token;
  }

  /** Reads the file anew the next time: somebody did not take the token. */
  forget(): void {
    this.#read = undefined;
  }

  async #current() {
    const read = this.#read;
    if (read !== undefined && this.#nowMs() - read.atMs < CACHE_MS) return read;
    const token = await readToken(this.#path) ?? read?.token;
    return this.#read = { token, atMs: this.#nowMs() };
  }
}

async function readToken(path: string): Promise<string | undefined> {
  try {
    const text = await Deno.readTextFile(path);
    return text.trim() === "" ? undefined : text.trim();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
