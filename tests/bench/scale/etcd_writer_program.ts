// Makes etcd's transactions, one for each line of the input, several at a time.
import { TextLineStream } from "../../lab/lines.ts";

/** etcd's JSON gateway (etcd documentation, "gRPC gateway"). */
const TRANSACTIONS = "http://127.0.0.1:2379/v3/kv/txn";
/** etcd and this program share the processors. */
const AT_ONCE = 16;

/** A generator: of a stream itself, Deno 2.9.6 cannot end several reads under way. */
async function* lines(): AsyncGenerator<string> {
  yield* Deno.stdin.readable.pipeThrough(new TextLineStream());
}

async function work(bodies: AsyncGenerator<string>): Promise<void> {
  for (;;) {
    const { done, value: body } = await bodies.next();
    if (done) return;
    const response = await fetch(TRANSACTIONS, { method: "POST", body });
    const answer = await response.text();
    if (!answer.includes('"succeeded":true')) {
      throw new Error(`Cannot store objects: etcd answered ${answer}`);
    }
  }
}

const bodies = lines();
await Promise.all(Array.from({ length: AT_ONCE }, () => work(bodies)));
