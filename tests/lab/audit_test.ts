import assert from "node:assert/strict";
import { dropHalfLine, parseAuditLog } from "./audit.ts";

function line(verb: string): string {
  const requestReceivedTimestamp = "2026-01-02T03:04:05.000006Z";
  const event = { verb, stage: "ResponseComplete", requestURI: "/" };
  return `${JSON.stringify({ ...event, requestReceivedTimestamp })}\n`;
}

Deno.test("an audit log goes on after an API server that was killed in the middle of a line", async () => {
  const file = await Deno.makeTempFile();
  try {
    const half = line("create").slice(0, 20);
    await Deno.writeTextFile(file, line("get") + half);
    await dropHalfLine(file);
    await Deno.writeTextFile(file, line("list"), { append: true });
    const requests = parseAuditLog(await Deno.readTextFile(file));
    assert.deepEqual(requests.map(({ verb }) => verb), ["get", "list"]);
  } finally {
    await Deno.remove(file);
  }
});

Deno.test("an audit log of whole lines stays, and one that is not there is none", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const file = `${directory}/audit.log`;
    await dropHalfLine(file);
    await Deno.writeTextFile(file, line("get"));
    await dropHalfLine(file);
    assert.equal(await Deno.readTextFile(file), line("get"));
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
