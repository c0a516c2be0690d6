/** TCP and UDP port of a probe. */
export const PROBE_PORT = 8080;

/** A probe, asked for its name and the address that it sees. */
export interface ProbeQuestion {
  readonly kind: "tcp" | "udp";
  readonly address: string;
  readonly port: number;
  /** Whether packets are as large as the link's MTU, and may not be sent in fragments. */
  readonly isLarge: boolean;
}

/** A TCP connection, without a word. */
export interface ConnectQuestion {
  readonly kind: "connect";
  readonly address: string;
  readonly port: number;
}

/** An HTTP server that answers with the address that it sees. */
export interface UrlQuestion {
  readonly kind: "get";
  readonly url: string;
}

/** A destination to try. */
export type Question = ProbeQuestion | ConnectQuestion | UrlQuestion;

/** Requests for a probe. */
export interface Questions {
  /** For all of them together; each is tried until then. */
  readonly timeoutMs: number;
  readonly questions: readonly Question[];
}

/** Why there was no answer. */
export type FailureReason =
  | "no answer"
  | "refused"
  | "unreachable"
  /** A router said so. */
  | "too large"
  | "other";

const REASONS: readonly string[] = [
  ...["no answer", "refused", "unreachable", "too large", "other"],
];

/** Outcome of a question. */
export type ProbeOutcome =
  | {
    readonly state: "answered";
    /** Name of the probe that answered, and the address that it saw; absent where none answers. */
    readonly by?: string | undefined;
    readonly source?: string | undefined;
  }
  | {
    readonly state: "failed";
    readonly why: FailureReason;
    readonly detail: string;
    /** Of the largest packet that was sent, in bytes. */
    readonly size?: number | undefined;
  };

/** Most of what a node says, which may be hostile. */
const MAX_TEXT = 500;

/** Reads what a probe wrote. @throws {SyntaxError} unless it is an outcome for each of the questions */
export function parseOutcomes(text: string, count: number): ProbeOutcome[] {
  const answer: unknown = JSON.parse(text);
  if (!Array.isArray(answer) || answer.length !== count) {
    throw new SyntaxError("its answer has another form");
  }
  return answer.map(parseOutcome);
}

function parseOutcome(value: unknown): ProbeOutcome {
  const { state, by, source, why, detail, size } = (value ?? {}) as Readonly<
    Record<string, unknown>
  >;
  if (state === "answered") {
    return { state, by: textOf(by), source: textOf(source) };
  }
  if (state === "failed" && isReason(why)) {
    return {
      state,
      why,
      detail: textOf(detail) ?? "",
      size: typeof size === "number" ? size : undefined,
    };
  }
  throw new SyntaxError("its answer has another form");
}

function isReason(value: unknown): value is FailureReason {
  return typeof value === "string" && REASONS.includes(value);
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string"
    // deno-lint-ignore no-control-regex
    ? value.replaceAll(/[\x00-\x1f\x7f-\x9f]+/g, " ").slice(0, MAX_TEXT)
    : undefined;
}
