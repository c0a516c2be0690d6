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

/** A real transport with a gate: closed, no new request gets through. */
export class GatedTransport implements Transport {
  readonly #inner: Transport;
  isOpen = true;

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
    return await this.#inner.request(request, options);
  }

  async stream(
    request: TransportRequest,
    options: StreamTimeouts,
  ): Promise<TransportStream> {
    this.#assertOpen();
    return await this.#inner.stream(request, options);
  }

  async refreshCredentials(): Promise<void> {
    await this.#inner.refreshCredentials();
  }

  close(): void {
    this.#inner.close();
  }

  #assertOpen(): void {
    if (!this.isOpen) throw new KubeUnreachableError("The gate is closed");
  }
}
