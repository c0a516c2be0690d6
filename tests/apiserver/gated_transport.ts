import { abortable, jittered, sleep } from "../../lib/async/mod.ts";
import {
  HttpTransport,
  KubeconfigSource,
  KubeUnreachableError,
  type StreamTimeouts,
  type Transport,
  type TransportRequest,
  type TransportResponse,
  type TransportStream,
} from "../../lib/kube/mod.ts";

/** A real transport with a gate: closed, no new request gets through; held, nothing comes back; late, all comes and goes after so long, more or less. */
export class GatedTransport implements Transport {
  readonly #inner: Transport;
  isOpen = true;
  isHeld = false;
  lateMs = 0;

  private constructor(inner: Transport) {
    this.#inner = inner;
  }

  static async open(kubeconfig: string): Promise<GatedTransport> {
    const source = await KubeconfigSource.load({ file: kubeconfig });
    return new GatedTransport(new HttpTransport(source));
  }

  get host(): string {
    return this.#inner.host;
  }

  async request(
    request: TransportRequest,
    options: { timeoutMs: number },
  ): Promise<TransportResponse> {
    this.#assertOpen();
    await this.#late();
    const response = await this.#inner.request(request, options);
    await this.#late();
    if (!this.isHeld) return response;
    return await abortable(new Promise<never>(() => {}), request.signal);
  }

  async stream(
    request: TransportRequest,
    options: StreamTimeouts,
  ): Promise<TransportStream> {
    this.#assertOpen();
    const stream = await this.#inner.stream(request, options);
    return { ...stream, chunks: this.#lateChunks(stream.chunks) };
  }

  async refreshCredentials(): Promise<void> {
    await this.#inner.refreshCredentials();
  }

  close(): void {
    this.#inner.close();
  }

  async *#lateChunks(
    chunks: AsyncIterable<Uint8Array>,
  ): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      await this.#late();
      yield chunk;
    }
  }

  async #late(): Promise<void> {
    if (this.lateMs > 0) await sleep(jittered(this.lateMs));
  }

  #assertOpen(): void {
    if (!this.isOpen) throw new KubeUnreachableError("The gate is closed");
  }
}
