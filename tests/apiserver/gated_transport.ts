import { abortable } from "../../lib/async/mod.ts";
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

/** A real transport with a gate: closed, no new request gets through; held, nothing comes back. */
export class GatedTransport implements Transport {
  readonly #inner: Transport;
  isOpen = true;
  isHeld = false;

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
    const response = await this.#inner.request(request, options);
    if (!this.isHeld) return response;
    return await abortable(new Promise<never>(() => {}), request.signal);
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
