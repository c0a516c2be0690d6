import assert from "node:assert/strict";
import { expectKubectl, failureOf, kubectlExec } from "./kubectl.ts";

const POD = { namespace: "kube-system", name: "coild-1", container: "coild" };

/** A program instead of kubectl. */
async function script(text: string) {
  const directory = await Deno.makeTempDir();
  const path = `${directory}/kubectl`;
  await Deno.writeTextFile(path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  return {
    path,
    exec: kubectlExec({ kubeconfig: "k", context: "" }, path),
    [Symbol.asyncDispose]: () => Deno.remove(directory, { recursive: true }),
  };
}

Deno.test("kubectlExec() gives a command its stdin, and only then asks kubectl for one", async () => {
  await using kubectl = await script('echo "$*"; cat');
  const without = await kubectl.exec(POD, ["probe", "ask"]);
  const start = "--kubeconfig=k -n kube-system exec coild-1 -c coild";
  assert.equal(without.stdout, `${start} -- coil probe ask\n`);
  const stdin = "x".repeat(1 << 20);
  const { stdout } = await kubectl.exec(POD, ["probe", "ask"], { stdin });
  assert.equal(stdout, `${start} -i -- coil probe ask\n${stdin}`);
});

Deno.test("kubectlExec() returns why a command ended that does not read its stdin", async () => {
  await using kubectl = await script("echo no >&2; exit 2");
  const stdin = "x".repeat(1 << 20);
  const ran = await kubectl.exec(POD, ["probe"], { stdin });
  assert.deepEqual(ran, { code: 2, stdout: "", stderr: "no\n" });
});

Deno.test("kubectlExec() ends a command that takes longer than it may", async () => {
  await using kubectl = await script("exec sleep 5");
  await assert.rejects(
    kubectl.exec(POD, ["probe"], { timeoutMs: 500 }),
    /^Error: no answer within 0\.5 s$/,
  );
});

Deno.test("failureOf() is the line that says why, of which a node that may be hostile gives no more than fits", () => {
  const ran = { code: 1, stdout: "", stderr: `no\n${"x".repeat(1 << 20)}\n` };
  assert.equal(failureOf(ran), "x".repeat(500));
  assert.equal(failureOf({ ...ran, code: 2 }), "no");
  assert.equal(failureOf({ ...ran, stderr: "" }), "exit code 1");
});

Deno.test("kubectlExec() says that kubectl is missing", async () => {
  const exec = kubectlExec({ kubeconfig: "", context: "" }, "no-such-kubectl");
  await assert.rejects(
    exec(POD, ["probe"]),
    { name: "CommandError", message: "no-such-kubectl is not on PATH" },
  );
  const { signal } = new AbortController();
  await assert.rejects(
    expectKubectl(signal, "no-such-kubectl"),
    /is not on PATH$/,
  );
  await expectKubectl(signal, "true");
});

Deno.test("expectKubectl() says which program cannot be started", async () => {
  const { signal } = new AbortController();
  await assert.rejects(
    expectKubectl(signal, import.meta.dirname),
    { name: "CommandError", message: /^Cannot start .*: Permission denied/ },
  );
});

Deno.test("expectKubectl() ends with the command that asks, when kubectl hangs", async () => {
  await using kubectl = await script("exec sleep 60");
  const stop = new AbortController();
  const looking = expectKubectl(stop.signal, kubectl.path);
  stop.abort(new Error("interrupted"));
  await assert.rejects(looking, /^Error: interrupted$/);
});
