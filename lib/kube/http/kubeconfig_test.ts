import assert from "node:assert/strict";
import { KubeUnreachableError } from "./errors.ts";
import { KubeClient } from "../client/client.ts";
import { KubeconfigSource } from "./kubeconfig.ts";
import { PODS } from "../api/resource.ts";

/** Runs with other variables; an empty value unsets one. */
async function withEnv(
  variables: Record<string, string>,
  run: () => Promise<void>,
): Promise<void> {
  const before = Deno.env.toObject();
  try {
    for (const [name, value] of Object.entries(variables)) {
      if (value === "") Deno.env.delete(name);
      else Deno.env.set(name, value);
    }
    await run();
  } finally {
    for (const name of Object.keys(variables)) {
      const value = before[name];
      if (value === undefined) Deno.env.delete(name);
      else Deno.env.set(name, value);
    }
  }
}

Deno.test("load() says where it looked when there is no kubeconfig, and guesses no server", async () => {
  await withEnv({ KUBECONFIG: "/none/a:/none/b" }, async () => {
    await assert.rejects(
      KubeconfigSource.load(),
      /Cannot find a kubeconfig: \/none\/a, \/none\/b does not exist/,
    );
  });
  await withEnv({ KUBECONFIG: "", HOME: "/none" }, async () => {
    await assert.rejects(
      KubeconfigSource.load(),
      /Cannot find a kubeconfig: \/none\/\.kube\/config does not exist/,
    );
  });
  await withEnv({ KUBECONFIG: "", HOME: "" }, async () => {
    await assert.rejects(KubeconfigSource.load(), /nor \$HOME is set/);
  });
});

Deno.test("load() refuses a kubeconfig without a cluster by its name", async () => {
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, "apiVersion: v1\nkind: Config\n");
  await assert.rejects(
    KubeconfigSource.load({ file }),
    (error: Error) => error.message.includes(`${file}: it names no cluster`),
  );
  await Deno.remove(file);
});

Deno.test("an API server that refuses connections is named together with the reason", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  listener.close();
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(
    file,
    JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      clusters: [
        { name: "c", cluster: { server: `https://127.0.0.1:${port}` } },
      ],
      users: [{ name: "u", user: { token: "t" } }],
      contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
      "current-context": "x",
    }),
  );
  using client = await KubeClient.load({ kubeconfig: file });
  await assert.rejects(client.list(PODS, { timeoutMs: 3_000 }), (error) => {
    assert.ok(error instanceof KubeUnreachableError);
    assert.match(error.message, new RegExp(`127\\.0\\.0\\.1:${port}.*refused`));
    return true;
  });
  await Deno.remove(file);
});
