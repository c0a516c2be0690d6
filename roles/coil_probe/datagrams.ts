// Datagrams of probes: a word, eight bytes that the answer repeats, the rest.

/** What questions begin with. An answer begins otherwise: two probes never go on for ever. */
const QUESTION = "coil-probe?";
const ANSWER = "coil-probe!";
const NONCE_LENGTH = 16;

/** Questions are longer than answers: a forged source gets less than was sent. */
export const SMALL_BYTES = 512;
const MAX_ANSWER_BYTES = 400;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A probe's answer about its client. */
export interface Seen {
  /** Its own name. */
  readonly by: string;
  /** The address that the question came from. */
  readonly source: string;
}

/** Makes a question of so many bytes. */
export function encodeQuestion(
  nonce: string,
  bytes: number,
): Uint8Array<ArrayBuffer> {
  const datagram = new Uint8Array(bytes);
  encoder.encodeInto(`${QUESTION}${nonce}`, datagram);
  return datagram;
}

export function newNonce(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(NONCE_LENGTH / 2));
  return bytes.toHex();
}

/** The answer to a datagram; undefined when it is no question. */
export function answerTo(
  datagram: Uint8Array,
  seen: Seen,
): Uint8Array | undefined {
  const head = QUESTION.length + NONCE_LENGTH;
  const text = decoder.decode(datagram.subarray(0, head));
  if (!text.startsWith(QUESTION) || datagram.length < SMALL_BYTES) {
    return undefined;
  }
  const nonce = text.slice(QUESTION.length);
  const answer = encoder.encode(`${ANSWER}${nonce}${JSON.stringify(seen)}`);
  return answer.length > MAX_ANSWER_BYTES ? undefined : answer;
}

/** Reads the answer to the question with this nonce; undefined when it is something else. */
export function readAnswer(
  datagram: Uint8Array,
  nonce: string,
): Seen | undefined {
  const text = decoder.decode(datagram);
  const head = `${ANSWER}${nonce}`;
  return text.startsWith(head) ? parseSeen(text.slice(head.length)) : undefined;
}

/** Reads what a probe says; undefined when it is something else. */
export function parseSeen(text: string): Seen | undefined {
  try {
    const { by, source } = JSON.parse(text) as Partial<Seen>;
    return typeof by === "string" && typeof source === "string"
      ? { by, source }
      : undefined;
  } catch {
    return undefined;
  }
}
