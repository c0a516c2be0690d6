import { getLogger } from "../../telemetry/mod.ts";
import { KubeApiError } from "../http/errors.ts";

const log = getLogger("informer");

/** When the API server last answered an informer; logs that it stops, and that it does again. */
export class Contact {
  readonly #resource: string;
  #lastMs = -Infinity;
  #failing = false;

  /** @param resource names the objects in the log */
  constructor(resource: string) {
    this.#resource = resource;
  }

  /** Milliseconds since the last contact. */
  get ageMs(): number {
    return performance.now() - this.#lastMs;
  }

  made(): void {
    this.#lastMs = performance.now();
    if (!this.#failing) return;
    this.#failing = false;
    log.info("Informer follows the API server again", {
      resource: this.#resource,
    });
  }

  failed(err: unknown): void {
    const fields = { resource: this.#resource, err };
    const wasGone = err instanceof KubeApiError && err.isGone;
    if (wasGone || this.#failing) {
      log.debug("Informer restarts", fields);
    } else {
      log.warn("Informer cannot follow the API server", fields);
    }
    this.#failing ||= !wasGone;
  }
}
