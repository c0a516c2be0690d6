// coil ipam check on nodes: a real coild, asked at its socket; and nodes that
// kubectl cannot reach.
import assert from "node:assert/strict";
import { NODE_FINDING_CODES } from "../../lib/ipam/audit/mod.ts";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import { jittered, sleep } from "../../lib/async/mod.ts";
import { coil, type Output } from "../../roles/cli/testing.ts";
import { testedSessions } from "../arch/pages.ts";
import { awaitedLater, eventually } from "../lab/mod.ts";
import { addressesAt, coilPatiently, untilSaid } from "./coild_admin.ts";
import { CoildLab } from "./coild_lab.ts";
import { coildPod } from "./coild_pod.ts";
import { addReportedPod, patchStatus } from "./patch_status.ts";

Deno.test("coil ipam check sees what is on nodes", async (t) => {
  await using lab = await CoildLab.start({ name: "checknodes" });
  await lab.createPool("default", [
    { ipv4: "10.100.0.0/24", ipv6: "fd02::100:0/120" },
  ]);
  lab.granter.start();
  let coild = await lab.startCoild();
  const { socketPath, node } = coild;

  const add = (name: string) => addReportedPod(lab, coild, name);
  const local = (...args: readonly string[]): Promise<Output> =>
    coilPatiently([
      ...["ipam", "check", "--local", `--socket=${socketPath}`],
      "--min-age=0s",
      ...args,
    ]);
  const codes = async (): Promise<string[]> => {
    const { out, err } = await local("-o=json");
    assert.equal(err, "");
    return JSON.parse(out).problems.map(({ code }: { code: string }) => code);
  };
  const isKnown = (count: number) =>
    untilSaid(
      `${count} pods with addresses`,
      socketPath,
      ({ pods = [] }) =>
        pods.filter(({ addresses }) => addresses.length > 0).length === count,
    );

  const first = await add("first");
  const second = await add("second");
  await isKnown(2);

  await t.step("kernel, table and API server side by side", async () => {
    const answer = await addressesAt(socketPath);
    assert.equal(answer.node, node.name);
    const addresses = [
      ["10.100.0.0", "fd02::100:0"],
      ["10.100.0.1", "fd02::100:1"],
    ];
    for (const entries of [answer.kernel, answer.table, answer.pods ?? []]) {
      assert.deepEqual(
        entries.map((entry) => entry.addresses).sort(),
        addresses,
      );
    }
    assert.deepEqual(answer.blocks, {
      "default-0": ["10.100.0.0/27", "fd02::100:0/123"],
    });
    assert.deepEqual(
      await local(),
      { code: 0, out: "No problems found\n", err: "" },
    );
  });

  await t.step(
    "an address whose pod is gone has leaked; one that is young has not",
    async () => {
      await lab.deletePod(first);
      await isKnown(1);
      assert.deepEqual(await codes(), ["address-leaked"]);
      const { code, out } = await local();
      assert.equal(code, 3);
      assert.match(
        out,
        /^1 problem:\n {2}Address 10.100.0.0 on Node \S+: container \S+ has had it for \d+m, but no pod of the node has it\n {6}coil explain 10.100.0.0\n$/,
      );
      const young = await local("--min-age=1h");
      assert.deepEqual([young.code, young.out], [0, "No problems found\n"]);
      await coild.del(first);
      assert.deepEqual(await codes(), []);
    },
  );

  await t.step(
    "who had it is noted, as the document shows, also over a kill of coild",
    async () => {
      const [session] = await testedSessions(
        "docs/roles/coil.md",
        import.meta.url,
      );
      const [program, ...args] = session?.command.split(" ") ?? [];
      assert.equal(program, "coil");
      const explain = () => coilPatiently([...args, `--socket=${socketPath}`]);
      const ageless = (text: string) => text.replace(/\d+\w+ ago/, "0s ago");
      let said = await explain();
      // The interface is deleted behind the DEL's back.
      await eventually("the address to be free", async () => {
        said = await explain();
        return !said.out.startsWith("No former holder");
      }, { intervalMs: 300 });
      assert.deepEqual([said.code, said.err], [0, ""]);
      assert.equal(ageless(said.out), session?.output);
      await coild.process.kill9();
      coild = await lab.startCoild();
      assert.equal(
        ageless((await explain()).out),
        session?.output,
      );
      const other = ["explain", "10.100.0.1", "--local"];
      assert.equal(
        (await coilPatiently([...other, `--socket=${socketPath}`])).out,
        "No former holder within a day\n",
      );
      const usage = await coil(["explain", "default/first", "--local"]);
      assert.deepEqual([usage.code, usage.out], [2, ""]);
    },
  );

  await t.step("a pod whose interface is gone is named", async () => {
    const links = await node.run("ip", "route", "show", "table", "116");
    const [, link = ""] = /^10.100.0.1 dev (\S+)/m.exec(links) ?? [];
    await node.run("ip", "link", "delete", link);
    // Once, whether or not coild has freed the address by now.
    assert.deepEqual(await codes(), ["pod-without-interface"]);
    await coild.del(second);
    await lab.deletePod(second);
    await isKnown(0);
  });

  await t.step("while 100 pods come and go nothing is found", async () => {
    let done = 0;
    const churn = async (name: string) => {
      for (let i = 0; i < 25; i++) {
        const pod = await add(`${name}-${i}`);
        await coild.del(pod);
        await lab.deletePod(pod);
        await lab.deleteNetns(pod);
        done++;
      }
    };
    const churning = awaitedLater(
      Promise.all(["a", "b", "c", "d"].map((name) => churn(name))),
    );
    let looks = 0;
    while (done < 100) {
      assert.deepEqual(await codes(), []);
      looks++;
      // coild answers about four times a second.
      await sleep(jittered(500));
    }
    await churning;
    assert.ok(looks >= 2, `${looks} looks`);
    // coild looks by itself, too.
    for (const code of NODE_FINDING_CODES) {
      const metric = `coil_coild_audit_findings{code="${code}"}`;
      await eventually(metric, async () => {
        const count = await coild.metric(metric);
        assert.ok(count === undefined || count === 0, `${code}: ${count}`);
        return count === 0;
      });
    }
  });

  await t.step(
    "a coild that does not answer is an error, not well",
    async () => {
      const args = ["ipam", "check", "--local", "--socket=/nonexistent/x.sock"];
      const { code, out, err } = await coil(args);
      assert.deepEqual([code, out], [1, ""]);
      assert.match(err, /Cannot ask coild at "\/nonexistent\/x.sock.admin"/);
    },
  );

  await t.step("--nodes: a node that is not reached is UNKNOWN", async () => {
    const executable = await buildExecutable();
    const checkNodes = async () => {
      const { code, stdout } = await new Deno.Command(executable, {
        args: [
          ...["ipam", "check", "--nodes"],
          `--kubeconfig=${lab.plane.kubeconfig}`,
        ],
        env: { PATH: `${lab.plane.programs}:${Deno.env.get("PATH")}` },
      }).output();
      assert.equal(code, 1);
      const out = new TextDecoder().decode(stdout);
      assert.match(out, /\nNo problems found in the rest\n$/);
      return /^UNKNOWN: Node (.+)$/m.exec(out)?.[1];
    };
    assert.equal(await checkNodes(), `${node.name} (no coild runs there)`);
    // One that kubectl cannot run anything in: no kubelet answers.
    const path = "/api/v1/namespaces/kube-system/pods";
    const pod = coildPod({ name: "coild-x", node: node.name });
    await lab.plane.request("POST", path, pod);
    await patchStatus(lab.plane, `${path}/coild-x`, { phase: "Running" });
    const unreached = await checkNodes() ?? "";
    assert.ok(unreached.startsWith(`${node.name} (`), unreached);
    assert.doesNotMatch(unreached, /no coild runs there/);
  });
});
