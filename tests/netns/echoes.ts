/** Requests at the end that may be without an answer only because ping(8) no longer waited for it. */
const UNDER_WAY = 2;

/** What `ping` says of its echo requests, without -q: how many it sent, and how many got no answer. */
export function countEchoes(
  text: string,
): { readonly sent: number; readonly lost: number } {
  const [, count] = /(\d+) packets transmitted/.exec(text) ?? [];
  if (count === undefined) throw new Error(`Cannot read "${text}"`);
  const answered = new Set(
    [...text.matchAll(/icmp_seq=(\d+) ttl=/g)].map(([, n]) => Number(n)),
  );
  const sent = Number(count);
  const last = Math.max(0, ...answered);
  const unanswered = Math.max(0, sent - last - UNDER_WAY);
  return { sent, lost: last - answered.size + unanswered };
}
