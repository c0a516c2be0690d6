// The one file of a node: its front answers runtimes without anything else, and
// goes on as the whole program where it cannot.
import assert from "node:assert/strict";
import { CALL, OneFile } from "./one_file.ts";
import { type Input, type Output, runFile } from "./testing.ts";

const LOADER = Deno.build.arch === "x86_64"
  ? "/lib64/ld-linux-x86-64.so.2"
  : "/lib/ld-linux-aarch64.so.1";

async function start(one: OneFile, input: Input = {}): Promise<Output> {
  const [command = "", ...args] = one.command;
  return await runFile(command, {
    ...input,
    args: [...args, ...input.args ?? []],
  });
}

function call(one: OneFile, env: Record<string, string> = {}) {
  return start(one, { env: { ...CALL, ...env }, stdin: one.config });
}

Deno.test("where there is no library at all pods start as long as coild answers", async () => {
  await using one = await OneFile.make({ isRoot: true });
  {
    await using coild = one.answer();
    const output = await call(one);
    assert.deepEqual(output, { code: 0, stdout: '"cid0"', stderr: "" });
    assert.equal(coild.calls, 1);
  }
  const { code, stdout, stderr } = await call(one);
  assert.equal(code, 1);
  assert.equal(stderr, "");
  const error = JSON.parse(stdout);
  assert.equal(error.code, 11);
  assert.match(error.msg, /^coil: cannot start the whole program.* ld\.so$/);
  assert.equal(
    error.details,
    `error 2 of ${LOADER}; cannot reach coild: error 2 of /coild.sock.cni`,
  );
});

Deno.test("where there is no library a person reads the reason on stderr, a runtime on stdout", async () => {
  await using one = await OneFile.make({ isRoot: true });
  const person = await start(one, { args: ["version"] });
  assert.equal(person.code, 127);
  assert.equal(person.stdout, "");
  assert.match(
    person.stderr,
    new RegExp(`^coil: cannot start .* error 2 of ${LOADER}\n$`),
  );
  const version = await call(one, { CNI_COMMAND: "VERSION" });
  assert.equal(version.code, 1);
  assert.equal(JSON.parse(version.stdout).details, `error 2 of ${LOADER}`);
});

async function loader(): Promise<Uint8Array<ArrayBuffer>> {
  return await Deno.readFile(LOADER);
}

/** What may be wrong with ld.so: its contents, and the error that is named. */
const DAMAGED: Readonly<
  Record<string, () => Promise<Uint8Array<ArrayBuffer>>>
> = {
  "is empty": () => Promise.resolve(new Uint8Array()),
  "is a text": () => Promise.resolve(new TextEncoder().encode("#!/bin/sh\n")),
  "is cut in its header": async () => (await loader()).slice(0, 100),
  "is cut in its code": async () => (await loader()).slice(0, 50_000),
  "is cut in its data": async () => {
    const bytes = await loader();
    const view = new DataView(bytes.buffer);
    const headers = Number(view.getBigUint64(32, true));
    const at = Array.from(
      { length: view.getUint16(56, true) },
      (_, i) => headers + 56 * i,
    ).findLast((at) => view.getUint32(at, true) === 1); // PT_LOAD
    assert.ok(at);
    return bytes.slice(0, Number(view.getBigUint64(at + 8, true)) + 100);
  },
  "is for another machine": async () => {
    const bytes = await loader();
    bytes[18] = 243; // EM_RISCV
    return bytes;
  },
  "has its program headers nowhere": async () => {
    const bytes = await loader();
    new DataView(bytes.buffer).setBigUint64(32, 1n << 62n, true);
    return bytes;
  },
  "wants all memory": async () => {
    const bytes = await loader();
    const view = new DataView(bytes.buffer);
    const headers = Number(view.getBigUint64(32, true));
    for (let i = 0; i < view.getUint16(56, true); i++) {
      view.setBigUint64(headers + 56 * i + 40, 1n << 62n, true); // p_memsz
    }
    return bytes;
  },
  "starts outside of itself": async () => {
    const bytes = await loader();
    new DataView(bytes.buffer).setBigUint64(24, 1n << 40n, true);
    return bytes;
  },
};

for (const [what, contents] of Object.entries(DAMAGED)) {
  Deno.test(`an ld.so that ${what} is an error that names it, and pods start all the same`, async () => {
    await using one = await OneFile.make({ isRoot: true });
    const path = `${one.root}${LOADER}`;
    await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    await Deno.writeFile(path, await contents(), { mode: 0o755 });
    const { code, stdout } = await call(one);
    assert.equal(code, 1);
    const error = JSON.parse(stdout);
    assert.equal(error.code, 11);
    assert.match(error.details, new RegExp(`^error 8 of ${LOADER};`)); // ENOEXEC
    await using _coild = one.answer();
    assert.equal((await call(one)).stdout, '"cid0"');
  });
}

Deno.test("a file that is replaced and removed while its front waits goes on as the whole program", async () => {
  await using one = await OneFile.make();
  const called = (async () => {
    using listener = one.listen();
    using _connection = await listener.accept();
    await Deno.writeTextFile(`${one.root}/new`, "#!/bin/sh\nexit 3\n");
    await Deno.rename(`${one.root}/new`, one.coil);
    await Deno.remove(one.coil);
  })();
  const { code, stdout } = await call(one);
  await called;
  assert.equal(code, 1);
  const error = JSON.parse(stdout);
  // Of the whole program, which asked again; the front would have named ld.so.
  assert.deepEqual([error.code, error.msg], [
    11,
    "coild is not running on this node or still starting",
  ]);
});

Deno.test("two hundred calls at once get each its own answer, and no whole program starts", async () => {
  await using one = await OneFile.make({ isRoot: true });
  await using coild = one.answer();
  const outputs = await Promise.all(
    Array.from(
      { length: 200 },
      (_, i) => call(one, { CNI_CONTAINERID: `cid${i}` }),
    ),
  );
  outputs.forEach(({ code, stdout }, i) => {
    assert.deepEqual([code, stdout], [0, `"cid${i}"`]);
  });
  assert.equal(coild.calls, 200);
});

/** Runs a script of bash whose first argument is the executable. */
async function shell(
  one: OneFile,
  script: string,
): Promise<{ readonly code: number; readonly stdout: string }> {
  const { code, stdout } = await new Deno.Command("bash", {
    args: ["-c", script, "bash", one.coil],
    env: { ...CALL, CONFIG: one.config },
  }).output();
  return { code, stdout: new TextDecoder().decode(stdout) };
}

/** Closed descriptors, and what comes of them. */
const CLOSED: readonly (readonly [
  string,
  "answer" | "error" | "nothing",
  number,
])[] = [
  ["2>&-", "answer", 0],
  ["<&-", "error", 1],
  ["<&- 2>&-", "error", 1],
  [">&-", "nothing", 0],
  [">&- 2>&-", "nothing", 0],
  ["<&- >&-", "nothing", 1],
  ["<&- >&- 2>&-", "nothing", 1],
];

for (const [closed, result, exitCode] of CLOSED) {
  Deno.test(`closed descriptors, ${closed}: ${result} on stdout`, async () => {
    await using one = await OneFile.make();
    await using coild = one.answer();
    const input = closed.includes("<") ? "" : '<<< "$CONFIG"';
    const { code, stdout } = await shell(one, `"$1" ${input} ${closed}`);
    // Where nobody could read an answer it does not matter who asked for one.
    if (result !== "nothing") {
      assert.equal(coild.calls, result === "answer" ? 1 : 0);
    }
    assert.equal(code, exitCode);
    if (result === "answer") assert.equal(stdout, '"cid0"');
    else if (result === "nothing") assert.equal(stdout, "");
    else assert.ok(JSON.parse(stdout).code > 0);
  });
}

Deno.test("an environment of 256 KiB is no obstacle, the whole program takes to coild what the front cannot", async () => {
  await using one = await OneFile.make();
  await using coild = one.answer();
  const half = "x".repeat(128 * 1024 - 20);
  const other = await call(one, { A: half, B: half });
  assert.deepEqual([other.code, other.stdout], [0, '"cid0"']);
  assert.equal(coild.calls, 1);
  const plugins = await call(one, { CNI_A: half, CNI_B: half });
  assert.deepEqual([plugins.code, plugins.stdout], [0, '"cid0"']);
  assert.equal(coild.calls, 2);
});

Deno.test("a stdin that does not end is refused, at four mebibytes", async () => {
  await using one = await OneFile.make();
  const { code, stdout } = await shell(one, '"$1" < /dev/zero');
  assert.equal(code, 1);
  const error = JSON.parse(stdout);
  assert.equal(error.code, 7);
  assert.equal(error.details, "stdin has more than 4 MiB");
});

Deno.test("what the whole program prints arrives where stdout is non-blocking and read late", async () => {
  await using one = await OneFile.make();
  // perl sets O_NONBLOCK on what becomes its stdout, a pipe of 64 KiB.
  const { stdout } = await shell(
    one,
    `export CNI_ARGS=$(printf '%100000s' | tr ' ' x)
    (perl -MFcntl -e '
      fcntl(STDOUT, F_SETFL, fcntl(STDOUT, F_GETFL, 0) | O_NONBLOCK);
      exec @ARGV' "$1" <<< "$CONFIG") | (sleep 1; cat)`,
  );
  assert.ok(JSON.parse(stdout).msg.length > 100_000);
});

Deno.test("the whole program says on one line that nobody reads what it prints", async () => {
  await using one = await OneFile.make();
  const { stdout } = await shell(
    one,
    'exec 3>&1; ("$1" 2>&3 <<< "$CONFIG"; echo "exit code $?" >&3) | true',
  );
  assert.match(
    stdout,
    /^coil: cannot write the answer to stdout: [^\n]*Broken pipe[^\n]*\nexit code 1\n$/,
  );
});

Deno.test("a variable that is not UTF-8 is an error that names it", async () => {
  await using one = await OneFile.make();
  for (const name of ["CNI_CONTAINERID", "CNI_ARGS"]) {
    const { code, stdout } = await shell(
      one,
      `export ${name}=$'K=\\xff'; "$1" <<< "$CONFIG"`,
    );
    assert.equal(code, 1);
    const error = JSON.parse(stdout);
    assert.equal(error.code, 4);
    assert.equal(error.msg, `${name} is not valid UTF-8`);
  }
});

Deno.test("the whole program starts at any address that the front and ld.so are", async () => {
  await using one = await OneFile.make();
  const script = 'for i in {1..5}; do setarch -R "$1" version; done; ' +
    'for i in {1..10}; do env -i "$1" version; done';
  const { code, stdout } = await shell(one, `unset CNI_COMMAND; ${script}`);
  assert.equal(code, 0);
  assert.equal(stdout.match(/^coil version /gm)?.length, 15, stdout);
});
