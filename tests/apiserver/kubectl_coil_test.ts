// The executable as a plugin of kubectl, and its commands with the rights that
// it has in coil-controller's pods.
import assert from "node:assert/strict";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { coil } from "../../roles/cli/testing.ts";
import { eventually, run, startCoilPlane } from "../lab/mod.ts";
import { populate } from "./ipam_books.ts";

/** A directory with kubectl, and the executable by the names that kubectl looks for. */
async function pluginDirectory(programs: string): Promise<string> {
  const directory = await Deno.makeTempDir();
  const executable = await buildExecutable();
  for (const name of ["kubectl-coil", "kubectl_complete-coil"]) {
    await Deno.symlink(executable, `${directory}/${name}`);
  }
  await Deno.symlink(`${programs}/kubectl`, `${directory}/kubectl`);
  return directory;
}

Deno.test("the executable is a plugin of kubectl, and works with coil-controller's rights", async (t) => {
  await using plane = await startCoilPlane({ name: "kubectlcoil" });
  await populate(plane);
  await using stack = new AsyncDisposableStack();
  const directory = await pluginDirectory(plane.programs);
  stack.defer(() => Deno.remove(directory, { recursive: true }));
  const env = {
    PATH: `${directory}:${Deno.env.get("PATH")}`,
    KUBECONFIG: plane.kubeconfig,
  };
  const kubectl = (...args: readonly string[]) =>
    run(`${directory}/kubectl`, [...args], { env });

  await t.step("kubectl coil runs its commands", async () => {
    assert.match(
      await kubectl("coil", "ipam", "show", "blocks", "--pool", "small"),
      /^BLOCK.*\nsmall-0 +small +node1 /,
    );
    const help = await kubectl("coil");
    assert.match(help, /^usage: kubectl coil COMMAND\n/);
    assert.doesNotMatch(help, /daemons/);
    assert.match(
      await kubectl("coil", "ipam", "map", "--help"),
      /kubectl coil ipam map \[flags\] POOL/,
    );
    assert.match(await kubectl("coil", "migrate", "--help"), /dump/);
    // Also when the shell has a variable of the CNI.
    const version = await run(`${directory}/kubectl`, ["coil", "version"], {
      env: { ...env, CNI_COMMAND: "ADD" },
    });
    assert.match(version, /^kubectl coil version /);
  });

  await t.step("kubectl completes its commands, pools and flags", async () => {
    // It waits for the cluster for some seconds; a user presses the key again.
    const completes = (words: readonly string[], expected: string) =>
      eventually(`${words} to become ${expected}`, async () => {
        const text = await kubectl("__complete", "coil", ...words);
        assert.deepEqual(text.trim().split("\n"), [expected, ":4"]);
        return true;
      });
    await completes(["ipam", "s"], "show");
    await completes(["ipam", "map", "d"], "default");
    await completes(["ipam", "map", "--wa"], "--watch");
    await completes(["ipam", "show", "blocks", "--pool", "s"], "small");
  });

  await t.step(
    "kubectl coil completion says how kubectl completes",
    async () => {
      const { code, stderr } = await new Deno.Command(
        `${directory}/kubectl-coil`,
        { args: ["completion", "bash"], env },
      ).output();
      assert.equal(code, 2);
      assert.match(new TextDecoder().decode(stderr), /kubectl_complete-coil/);
    },
  );

  await plane.createNamespace("nat");
  await plane.apply({
    apiVersion: "coil.cybozu.com/v2",
    kind: "Egress",
    metadata: { namespace: "nat", name: "internet" },
    spec: {
      destinations: ["0.0.0.0/0"],
      template: { spec: { containers: [{ name: "egress" }] } },
    },
  });
  const token = await plane.serviceAccountToken({
    namespace: "kube-system",
    name: "coil-controller",
  });
  const config = `--kubeconfig=${await plane.kubeconfigFor({ token })}`;
  for (
    const [line, code, unseen = []] of [
      ["status", 3, ["daemonsets", "leases"]],
      ["ipam show", 0],
      ["ipam map default", 0],
      ["ipam check", 3, []],
      ["explain 10.2.0.9", 0],
      ["explain apps/web-1 --to 8.8.8.8", 0],
      ["egress show clients", 0],
      ["egress show gateways nat/internet", 0],
      ["egress show sources", 0],
    ] as const
  ) {
    await t.step(`coil-controller may run coil ${line}`, async () => {
      const shown = await coil([...line.split(" "), config]);
      assert.equal(shown.code, code, shown.out + shown.err);
      const named = [...shown.out.matchAll(/^Not looked at: (\w+)/gm)];
      assert.deepEqual(named.map(([, what]) => what), [...unseen]);
    });
  }
});
