import assert from "node:assert/strict";
import { CallLog } from "./call_log.ts";

const FIELDS = { command: "ADD", iface: "eth0", pod: "" };

async function logged(
  options: { readonly level?: "warn" | "error"; readonly maxSizeMib?: number },
  work: (log: CallLog, file: string) => void,
): Promise<{ readonly lines: string[]; readonly printed: string[] }> {
  const directory = await Deno.makeTempDir();
  const file = `${directory}/below/coordinator.log`;
  const printed: string[] = [];
  const write = (line: string) => void printed.push(line);
  work(new CallLog({ ...options, file, fields: FIELDS, write }), file);
  const text = await Deno.readTextFile(file).catch(() => "");
  await Deno.remove(directory, { recursive: true });
  const lines = text.split("\n").slice(0, -1)
    .map((line) => line.replace(/^\S+Z /, ""));
  return { lines, printed };
}

Deno.test("CallLog writes warnings and the end of the call to its file", async () => {
  const { lines, printed } = await logged({}, (log) => {
    log.warn("Odd", { iface: "net1" });
    log.ended();
    log.ended(new Error("refused"));
  });
  assert.deepEqual(lines, [
    "warn Odd command=ADD iface=net1",
    "info Finished call command=ADD iface=eth0",
    "warn Call failed command=ADD iface=eth0 err=refused",
  ]);
  assert.deepEqual(printed, ["coordinator: Odd iface=net1\n"]);
});

Deno.test("CallLog leaves out what is below the level", async () => {
  const speak = (log: CallLog) => {
    log.warn("Odd");
    log.ended();
  };
  assert.deepEqual(
    (await logged({ level: "warn" }, speak)).lines,
    ["warn Odd command=ADD iface=eth0"],
  );
  assert.deepEqual(await logged({ level: "error" }, speak), {
    lines: [],
    printed: [],
  });
});

Deno.test("CallLog sets a large file aside, and keeps one", async () => {
  const { lines } = await logged({ maxSizeMib: 1 }, (log, file) => {
    log.ended();
    for (let i = 0; i < 2; i++) {
      Deno.writeTextFileSync(file, "x".repeat(1024 * 1024), { append: true });
      log.ended();
    }
    assert.equal((Deno.statSync(`${file}.1`).mode ?? 0) & 0o777, 0o600);
  });
  assert.deepEqual(lines, ["info Finished call command=ADD iface=eth0"]);
});

Deno.test("CallLog goes on where the file cannot be written", () => {
  const printed: string[] = [];
  const log = new CallLog({
    file: "/dev/null/coordinator.log",
    fields: FIELDS,
    write: (line) => printed.push(line),
  });
  log.ended();
  assert.match(
    printed.join(""),
    /^coordinator: Cannot write the log file file=\/dev\/null/,
  );
});
