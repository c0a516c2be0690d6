import assert from "node:assert/strict";
import { Gate } from "../../lib/async/mod.ts";
import { FakeTransport, serveTransport } from "../../lib/kube/testing.ts";
import { VERSION } from "../../lib/names/mod.ts";
import { run } from "./mod.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const COMMANDS = ["dump", "replace", "status"];

/** How a command ended, and what it wrote. */
interface Output {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs `coil migrate` in this process, where no user can be asked. */
async function migrate(...args: readonly string[]): Promise<Output> {
  let [out, err] = ["", ""];
  const code = await run(args, {
    program: "coil migrate",
    signal: new AbortController().signal,
    terminal: {
      isInteractive: false,
      now: () => new Date(),
      out: (text) => void (out += text),
      err: (text) => void (err += text),
      ask: () => Promise.resolve(undefined),
    },
  });
  return { code, out, err };
}

/** Starts `coil migrate` as a process of its own. */
function start(...args: readonly string[]): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "main.ts", "migrate", ...args],
    cwd: ROOT,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

const GONE = {
  status: 404,
  body: { kind: "Status", status: "Failure", reason: "NotFound" },
};

/** A cluster after its migration, but for a reserved block of a node without coild. */
const UNFINISHED = new FakeTransport(({ path }) => {
  const [place = ""] = path.split("?");
  if (place.endsWith("/namespaces/default")) return { body: { metadata: {} } };
  if (place.endsWith("/configmaps/coil-migration")) {
    const data = { dumpedAt: "t", v1RemovedAt: "t", podsAtStart: "1" };
    return { body: { metadata: {}, data } };
  }
  const lists: Readonly<Record<string, readonly unknown[]>> = {
    addressblocks: [{
      metadata: {
        name: "default-0-v1",
        labels: {
          "coil.cybozu.com/pool": "default",
          "coil.cybozu.com/node": "n1",
          "coil.cybozu.com/reserved": "true",
        },
      },
      index: 0,
      ipv4: "10.64.0.0/29",
    }],
    addresspools: [{
      metadata: { name: "default" },
      spec: { blockSizeBits: 3, subnets: [{ ipv4: "10.64.0.0/24" }] },
    }],
    pods: [],
  };
  const items = lists[place.split("/").at(-1) ?? ""];
  return items === undefined ? GONE : { body: { metadata: {}, items } };
});

for (const args of [[], ["--help"], ["-h"], ["help"], ["help", "dump"]]) {
  Deno.test(`coil migrate ${args.join(" ")} lists the commands and exit codes`, async () => {
    const { code, out, err } = await migrate(...args);
    assert.deepEqual([code, err], [0, ""]);
    assert.match(out, /^Moves a cluster from Coil v1 to v2\.\n/);
    for (const command of COMMANDS) {
      assert.match(out, new RegExp(`^  coil migrate ${command} +[A-Z]`, "m"));
    }
    const rows = out.split("\n").filter((line) => line.startsWith("  "));
    const columns = rows.map((row) => row.search(/(?<= {3})[A-Z]/));
    assert.deepEqual(columns, [25, 25, 25]);
    assert.match(out, /^"coil migrate COMMAND --help" shows the help/m);
    assert.match(out, /^Exit codes: 0 success, 1 failure, 2 usage error, 3 /m);
  });
}

for (const command of COMMANDS) {
  Deno.test(`coil migrate ${command} --help shows the command's flags`, async () => {
    const { code, out, err } = await migrate(command, "--help");
    assert.deepEqual([code, err], [0, ""]);
    assert.match(
      out,
      new RegExp(`^  coil migrate ${command} \\[flags\\]$`, "m"),
    );
    assert.match(out, /--kubeconfig string/);
  });
}

Deno.test("coil migrate shows its version, before and after a command", async () => {
  for (const args of [["--version"], ["dump", "--version"]]) {
    const { code, out } = await migrate(...args);
    const program = ["coil migrate", ...args.slice(0, -1)].join(" ");
    assert.deepEqual([code, out], [0, `${program} version ${VERSION}\n`]);
  }
});

for (
  const [line, message] of [
    ["frobnicate", 'unknown command "frobnicate": not dump, replace, status'],
    ["constructor", 'unknown command "constructor": not dump, replace, status'],
    ["-v", 'unknown command "-v": not dump, replace, status'],
    ["dump --frobnicate", "unknown flag: --frobnicate"],
    ["status all", "unexpected argument: all"],
    [
      "dump --etcd-tls-cert=c",
      "--etcd-tls-cert and --etcd-tls-key go together",
    ],
  ] as const
) {
  Deno.test(`coil migrate ${line}: exit code 2 and the reason on stderr`, async () => {
    const { code, out, err } = await migrate(...line.split(" "));
    assert.deepEqual([code, out], [2, ""]);
    assert.equal(err, `Error: ${message}\nSee "coil migrate --help".\n`);
  });
}

Deno.test("coil migrate with a kubeconfig that is not there: exit code 1", async () => {
  const file = "/nonexistent/kubeconfig";
  const { code, out, err } = await migrate("status", "--kubeconfig", file);
  assert.deepEqual([code, out], [1, ""]);
  const reason = `Error: Cannot read the kubeconfig "${file}": `;
  assert.ok(err.startsWith(reason), err);
});

Deno.test("coil migrate without a user to ask: exit code 1, and nothing is changed", async () => {
  await using cluster = await serveTransport(UNFINISHED);
  const { code, err } = await migrate(
    ...["replace", `--kubeconfig=${cluster.kubeconfig}`],
  );
  assert.equal(code, 1);
  assert.match(err, /\nError: Cannot ask for confirmation: stdin is not a /);
});

Deno.test("coil migrate that leaves a decision to make: exit code 3", async () => {
  await using cluster = await serveTransport(UNFINISHED);
  const kubeconfig = `--kubeconfig=${cluster.kubeconfig}`;
  const { code, err } = await migrate("replace", "--yes", kubeconfig);
  assert.equal(code, 3, err);
  assert.match(err, /Kept 1 reserved block without pods/);
  assert.equal((await migrate("status", kubeconfig)).code, 0);
});

Deno.test("coil migrate goes on when the reader of its messages is gone", async () => {
  await using cluster = await serveTransport(UNFINISHED);
  const process = start(
    "replace",
    "--yes",
    `--kubeconfig=${cluster.kubeconfig}`,
  );
  const out = new Response(process.stdout).text();
  await process.stderr.cancel();
  assert.deepEqual([(await process.status).code, await out], [3, ""]);
});

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  Deno.test(`coil migrate ends at ${signal} and says how to go on`, async () => {
    const [asked, end] = [new Gate(), new Gate()];
    const silent = new FakeTransport(async () => {
      asked.open();
      await end.wait();
      return GONE;
    });
    await using cluster = await serveTransport(silent);
    const process = start("status", `--kubeconfig=${cluster.kubeconfig}`);
    const output = process.output();
    // A process that has ended already fails the test.
    await Promise.race([asked.wait(), output]);
    process.kill(signal);
    const { code, stdout, stderr } = await output;
    end.open();
    const text = new TextDecoder();
    assert.deepEqual([code, text.decode(stdout), text.decode(stderr)], [
      1,
      "",
      "\nInterrupted. Finished steps are kept: run the same command again.\n",
    ]);
  });
}
