/** The parts of `metav1.Status` that errors carry. */
export interface KubeStatus {
  readonly code?: number;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: {
    readonly name?: string;
    readonly retryAfterSeconds?: number;
    readonly causes?: readonly { readonly message?: string }[];
  };
}

/** The API server's refusal of a request. */
export class KubeApiError extends Error {
  override readonly name = "KubeApiError";
  /** HTTP status code. */
  readonly status: number;
  /** `metav1.StatusReason`, e.g. "NotFound"; empty when the answer was no Status. */
  readonly reason: string;
  /** How long the server asks to wait before another request. */
  readonly retryAfterMs?: number;
  /** Which object and fields it is about, as the server's Status has it. */
  readonly details?: NonNullable<KubeStatus["details"]>;

  constructor(
    message: string,
    options: {
      status: number;
      reason?: string | undefined;
      retryAfterMs?: number | undefined;
      details?: KubeStatus["details"] | undefined;
    },
  ) {
    super(message);
    this.status = options.status;
    this.reason = options.reason ?? "";
    if (options.retryAfterMs !== undefined) {
      this.retryAfterMs = options.retryAfterMs;
    }
    if (options.details !== undefined) this.details = options.details;
  }

  /** The object does not exist; or its kind does not, or the path is not served. */
  get isNotFound(): boolean {
    return this.status === 404;
  }
  /** The object changed since it was read, or a precondition does not hold. */
  get isConflict(): boolean {
    return this.status === 409 && this.reason !== "AlreadyExists";
  }
  /** An object of this name exists. */
  get isAlreadyExists(): boolean {
    return this.status === 409 && this.reason === "AlreadyExists";
  }
  /** The resource version or the continue token is too old: list again. */
  get isGone(): boolean {
    return this.status === 410;
  }
  /** The user may not do this, or an admission policy refused it. */
  get isForbidden(): boolean {
    return this.status === 403;
  }
  /** The credentials are not (or no longer) valid. */
  get isUnauthorized(): boolean {
    return this.status === 401;
  }
  /** The object does not fit its schema or rules. */
  get isInvalid(): boolean {
    return this.status === 422;
  }
  /** The server asks for fewer requests. */
  get isTooManyRequests(): boolean {
    return this.status === 429;
  }
  /** The server, or a proxy before it, fails or asks for fewer requests: 429, or 500 and more. */
  get isOutage(): boolean {
    return this.isTooManyRequests || this.status >= 500;
  }
  /** The same request may succeed later: 429, 500, 502, 503 or 504. */
  get isTransient(): boolean {
    return [429, 500, 502, 503, 504].includes(this.status);
  }
}

/** The API server could not be reached, or did not answer in time; whether it acted is not known. */
export class KubeUnreachableError extends Error {
  override readonly name = "KubeUnreachableError";
}

/** A failure that another attempt would only repeat: a {@link Controller} logs it and does not retry. */
export class TerminalError extends Error {
  override readonly name = "TerminalError";
}

/** Makes the error of an answer whose body should be a `metav1.Status`. */
export function parseApiError(
  what: string,
  answer: { status: number; headers: Headers; body: string },
): KubeApiError {
  const status = parseStatus(answer.body);
  const message = status?.message ?? answer.body.trim().slice(0, 500);
  return new KubeApiError(
    `Cannot ${what}: API server answered ${answer.status}: ${message}`,
    {
      status: answer.status,
      reason: status?.reason,
      retryAfterMs: parseRetryAfter(answer.headers, status),
      details: status?.details,
    },
  );
}

/** Makes the error of a Status that came inside a watch (an event of type ERROR). */
export function watchError(what: string, status: KubeStatus): KubeApiError {
  const code = status.code ?? 500;
  return new KubeApiError(
    `Cannot ${what}: API server answered ${code}: ${status.message ?? ""}`,
    {
      status: code,
      reason: status.reason,
      retryAfterMs: parseRetryAfter(undefined, status),
      details: status.details,
    },
  );
}

function parseStatus(body: string): KubeStatus | undefined {
  if (!body.startsWith("{")) return undefined;
  try {
    const status = JSON.parse(body) as KubeStatus & { kind?: string };
    return status.kind === "Status" ? status : undefined;
  } catch (err) {
    if (err instanceof SyntaxError) return undefined;
    throw err;
  }
}

function parseRetryAfter(
  headers: Headers | undefined,
  status: KubeStatus | undefined,
): number | undefined {
  // The API server sends seconds, never a date.
  const text = headers?.get("retry-after") ?? "";
  const seconds = /^\d+$/.test(text)
    ? Number(text)
    : status?.details?.retryAfterSeconds;
  return seconds === undefined ? undefined : seconds * 1000;
}
