import type { UrlQuestion } from "../../lib/connectivity/mod.ts";
import { Address } from "../../lib/inet/mod.ts";

const MAX_ANSWER_BYTES = 64 * 1024;
const ADDRESS = /[\d.]{7,15}|[\da-fA-F:.]*:[\da-fA-F:.]+/g;

/** Asks an HTTP server which address it sees: the first one in its answer. */
export async function askUrl(
  { url }: UrlQuestion,
  signal: AbortSignal,
): Promise<{ readonly source?: string }> {
  const response = await fetch(url, { signal });
  const text = await startOf(response.body);
  if (!response.ok) {
    throw new Error(`it answers with status ${response.status}`);
  }
  const source = addressIn(text);
  return source === undefined ? {} : { source };
}

/** An address is at the start; the rest is not waited for. */
async function startOf(body: Response["body"]): Promise<string> {
  const decoder = new TextDecoder();
  let [text, bytes] = ["", 0];
  for await (const chunk of body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) break;
  }
  return text;
}

export function addressIn(text: string): string | undefined {
  for (const [word] of text.matchAll(ADDRESS)) {
    const address = Address.tryParse(word.replace(/^::ffff:(?=.*\.)/i, ""));
    if (address !== undefined) return address.toString();
  }
  return undefined;
}
