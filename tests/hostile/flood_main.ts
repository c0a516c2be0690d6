/**
 * The attacker of half_open_connections_test.ts, a program in a pod: it opens connections to each address, sends what
 * it is told, and keeps those that stay open. It writes a line when it has tried them all, and stays.
 *
 *   flood_main.ts COUNT TEXT HOST:PORT...
 */
const AT_ONCE = 64;

const [count, text = "", ...targets] = Deno.args;
const bytes = new TextEncoder().encode(JSON.parse(`"${text}"`));
let opened = 0;
let failed = 0;

/** Keeps a connection as long as the peer does. */
async function hold(connection: Deno.Conn): Promise<void> {
  using _connection = connection;
  if (bytes.length > 0) await connection.write(bytes);
  await connection.read(new Uint8Array(1));
}

async function open(target: string): Promise<void> {
  const colon = target.lastIndexOf(":");
  const hostname = target.slice(0, colon);
  const port = Number(target.slice(colon + 1));
  try {
    const connection = await Deno.connect({ hostname, port });
    opened++;
    hold(connection).catch(() => {}); // closed by the peer
  } catch {
    failed++; // refused: the attack goes on
  }
}

const tries = targets.flatMap((target) =>
  Array.from({ length: Number(count) }, () => target)
);
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
  for (let next = tries.pop(); next !== undefined; next = tries.pop()) {
    await open(next);
  }
}));
// deno-lint-ignore no-console -- the test reads it
console.log(`opened ${opened}, failed ${failed}`);
setInterval(() => {}, 60_000);
