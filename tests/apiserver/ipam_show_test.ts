import assert from "node:assert/strict";
import { coil as runCoil, type Output } from "../../roles/cli/testing.ts";
import { testedSessions } from "../arch/pages.ts";
import { ControlPlane } from "../lab/mod.ts";
import { coilCommand } from "./coild_lab.ts";
import { installCrds } from "./crds.ts";
import { addPod, block, populate } from "./ipam_books.ts";
import { patchStatus } from "./patch_status.ts";
import { addViewer } from "./viewer.ts";

/** An hour after all objects were made: their ages, in whole minutes, are the same however long the test takes. */
let now = new Date();

function coil(
  kubeconfig: string,
  ...args: readonly string[]
): Promise<Output> {
  return runCoil([...args, `--kubeconfig=${kubeconfig}`], { now: () => now });
}

/** Adds one thing of each kind that does not fit. */
async function breakBooks(plane: ControlPlane): Promise<void> {
  await addPod(plane, ["default", "twin", "node2"], ["10.2.0.9"]);
  const annotate = ["annotate", "--overwrite"];
  await plane.kubectl(
    ...annotate,
    ...["pod/twin", "egress.coil.cybozu.com/internet=nat"],
  );
  await plane.kubectl(
    ...annotate,
    ...["namespace/apps", "coil.cybozu.com/pool=smal"],
  );
  await plane.apply(
    block(["gone", 0, "node9"], { ipv4: "10.9.0.0/27" }),
    {
      apiVersion: "coil.cybozu.com/v2",
      kind: "BlockRequest",
      metadata: { name: "refused" },
      spec: { nodeName: "node1", poolName: "small" },
    },
  );
  await patchStatus(
    plane,
    "/apis/coil.cybozu.com/v2/blockrequests/refused",
    { conditions: [FAILED] },
  );
}

const BASE = new URL("../../deploy/base", import.meta.url).pathname;

/** Of a request that the controller has refused. */
const FAILED = {
  type: "Failed",
  status: "True",
  reason: "NoFreeBlock",
  message: "out of blocks",
  lastProbeTime: "2026-01-01T00:00:00Z",
  lastTransitionTime: "2026-01-01T00:00:00Z",
};

const POOLS =
  `POOL      STATE       BLOCK SIZE   BLOCKS   FREE   NODES   IPV4 TOTAL   IPV4 FREE   AGE
default   Available   32           8        6      2       256          192         60m
small     Exhausted   32           1        0      1       32           0           60m
`;

const BLOCKS =
  `BLOCK       POOL      NODE    IPV4           IPV6           USED   SIZE   STATE    AGE
default-0   default   node1   10.2.0.0/27    fd02::/123     2      32     active   60m
default-1   default   node2   10.2.0.32/27   fd02::20/123   2      32     active   60m
small-0     small     node1   10.3.0.0/27    -              1      32     active   60m
`;

const ADDRESSES =
  `IPV4         IPV6       POD             NODE    BLOCK       STATE        AGE
10.2.0.9     fd02::9    apps/web-1      node1   default-0   ok           60m
10.2.0.10    fd02::a    apps/web-2      node1   default-0   ok           60m
10.2.0.40    fd02::28   apps/db         node2   default-1   ok           60m
10.2.0.41    fd02::29   apps/moved      node1   default-1   other-node   60m
10.2.0.200   fd02::c8   apps/lost       node2   -           no-block     60m
10.3.0.1     -          default/cache   node1   small-0     ok           60m
`;

/** The lines of a table with one of these words. */
function linesWith(table: string, ...words: readonly string[]): string[] {
  return table.split("\n").filter((line) =>
    words.some((word) => line.includes(word))
  ).map((line) => line.replaceAll(/ +/g, " "));
}

Deno.test("coil ipam show tells from the API server alone who holds what", async (t) => {
  await using plane = await ControlPlane.start({ name: "ipamshow" });
  const config = plane.kubeconfig;

  await t.step(
    "without Coil's resources it says how to install them",
    async () => {
      const { code, out, err } = await coil(config, "ipam", "show");
      assert.equal(code, 1);
      assert.equal(out, "");
      assert.match(
        err,
        /^Error: Cannot list addresspools.*\n.*apply -f crds\/\n$/,
      );
    },
  );

  await installCrds(plane);
  await t.step("without a pool it says so", async () => {
    assert.deepEqual(await coil(config, "ipam", "show"), {
      code: 0,
      out: "",
      err: "No pools found\n",
    });
    const json = await coil(config, "ipam", "show", "-o", "json");
    assert.deepEqual(JSON.parse(json.out), { pools: [] });
  });

  await populate(plane);
  now = new Date(Date.now() + 3_600_000);
  const golden = { pools: POOLS, blocks: BLOCKS, addresses: ADDRESSES };
  for (const [subject, table] of Object.entries(golden)) {
    await t.step(`${subject}: the table`, async () => {
      const { code, out, err } = await coil(config, "ipam", "show", subject);
      assert.equal(out, table);
      assert.equal(code, 0, err);
      assert.equal(
        err,
        subject !== "addresses"
          ? ""
          : `1 pod has an address of a pool, but of no block: see STATE no-block
1 pod has an address of another node's block: see STATE other-node
`,
      );
    });

    await t.step(`${subject}: one object a page gives the same`, async () => {
      const show = ["ipam", "show", subject, "--page-size=1"];
      assert.equal((await coil(config, ...show)).out, table);
    });
  }

  const sessions = await testedSessions(
    "docs/roles/coil.md",
    import.meta.url,
  );
  assert.equal(sessions.length, 4);
  for (const { command, output } of sessions) {
    await t.step(`the document shows what it prints: ${command}`, async () => {
      const [program, ...args] = command.split(" ");
      assert.equal(program, "coil");
      const { code, out, err } = await coil(config, ...args);
      assert.equal(out + err, output);
      assert.equal(code, args.includes("check") ? 3 : 0);
    });
  }

  await t.step("--node and --pool choose", async () => {
    const show = async (...args: readonly string[]) => {
      const { out } = await coil(config, "ipam", "show", ...args);
      return out.split("\n").slice(1, -1)
        .map((line) => line.replaceAll(/ +/g, " "));
    };
    assert.deepEqual(
      await show("pools", "--node=node2"),
      linesWith(POOLS, "default"),
    );
    assert.deepEqual(
      await show("blocks", "--node=node1", "--pool=small"),
      linesWith(BLOCKS, "small-0"),
    );
    assert.deepEqual(
      await show("addresses", "--node=node1"),
      linesWith(ADDRESSES, "node1"),
    );
    assert.deepEqual(
      await show("addresses", "--pool=default", "--node=node2"),
      linesWith(ADDRESSES, "node2"),
    );
    assert.deepEqual(
      await show("addresses", "-n", "default"),
      linesWith(ADDRESSES, "cache"),
    );
  });

  await t.step("-o json has the same as data", async () => {
    const show = ["ipam", "show", "-o=json"];
    const { pools } = JSON.parse((await coil(config, ...show, "pools")).out);
    assert.deepEqual(pools[0].blocks, { total: 8, allocated: 2, free: 6 });
    const counts = { total: "256", allocated: "64", free: "192" };
    assert.deepEqual(pools[0].ipv4, counts);
    assert.deepEqual(pools[0].ipv6, counts);
    assert.deepEqual(pools[0].subnets, ["10.2.0.0/24+fd02::/120"]);
    const { blocks } = JSON.parse((await coil(config, ...show, "blocks")).out);
    const { created, ...second } = blocks[1];
    assert.ok(Date.parse(created) > 0);
    assert.deepEqual(second, {
      name: "default-1",
      pool: "default",
      node: "node2",
      index: 1,
      ipv4: "10.2.0.32/27",
      ipv6: "fd02::20/123",
      size: "32",
      used: 2,
      state: "active",
    });
    const { addresses } = JSON.parse(
      (await coil(config, ...show, "addresses")).out,
    );
    const { since, ...lost } = addresses[4];
    assert.ok(Date.parse(since) > 0);
    assert.deepEqual(lost, {
      ipv4: "10.2.0.200",
      ipv6: "fd02::c8",
      namespace: "apps",
      pod: "lost",
      node: "node2",
      pool: "default",
      state: "no-block",
    });
  });

  await t.step(
    "an unknown pool or node is an error that names it",
    async () => {
      const show = ["ipam", "show", "blocks"];
      assert.deepEqual(await coil(config, ...show, "--pool=defualt"), {
        code: 1,
        out: "",
        err:
          'Error: Cannot show AddressPool "defualt": it does not exist (existing: default, small)\n',
      });
      const { code, err } = await coil(config, ...show, "--node=node9");
      assert.equal(code, 1);
      assert.match(
        err,
        /Cannot show blocks of Node "node9": it does not exist/,
      );
    },
  );

  await t.step(
    "a name that would be another selector is only a name",
    async () => {
      for (
        const name of ["node1,coil.cybozu.com/pool=small", "n".repeat(300)]
      ) {
        for (const subject of ["pools", "blocks", "addresses"]) {
          const show = ["ipam", "show", subject, `--node=${name}`];
          const { code, err } = await coil(config, ...show);
          assert.equal(code, 1);
          assert.equal(
            err,
            `Error: Cannot show ${subject} of Node "${name}": it does not exist\n`,
          );
        }
      }
    },
  );

  await t.step("an unknown namespace is an error that names it", async () => {
    const show = ["ipam", "show", "addresses", "-n", "aps"];
    const { code, err } = await coil(config, ...show);
    assert.equal(code, 1);
    assert.match(err, /addresses of Namespace "aps": it does not exist/);
    const empty = ["ipam", "show", "addresses", "-n", "kube-public"];
    assert.equal((await coil(config, ...empty)).err, "No addresses found\n");
  });

  await t.step(
    "--node and --namespace do not hide that another pod has the address",
    async () => {
      await addPod(plane, ["default", "twin", "node2"], ["10.2.0.9"]);
      for (const choice of ["--node=node1", "--namespace=apps"]) {
        const show = ["ipam", "show", "addresses", choice];
        const { out, err } = await coil(config, ...show);
        assert.match(out, /apps\/web-1 +node1 +default-0 +duplicate/);
        assert.doesNotMatch(out, /twin/);
        assert.match(err, /^1 pod has an address that another pod also has/);
      }
      await plane.kubectl("delete", "pod/twin", "--force", "--grace-period=0");
    },
  );

  await t.step("--node counts what pods of other nodes use", async () => {
    const show = ["ipam", "show", "blocks", "--node=node2"];
    assert.deepEqual(
      linesWith((await coil(config, ...show)).out, "default-1"),
      linesWith(BLOCKS, "default-1"),
    );
  });

  await t.step(
    "a user without rights, or a server that is away, is named",
    async () => {
      const user = await plane.kubeconfigFor({ user: "nobody" });
      const refused = await coil(user, "ipam", "show");
      assert.equal(refused.code, 1);
      assert.match(refused.err, /403.*"nobody".*\n.*ClusterRole view/);
      const bad = await plane.kubeconfigFor({ token: "wrong" });
      assert.match((await coil(bad, "ipam", "show")).err, /credentials/);
    },
  );

  await t.step("a viewer and coil-controller may read all of it", async () => {
    await plane.kubectl("apply", "-k", BASE);
    const viewer = await addViewer(plane, [
      "coilv2-addresspool-viewer-role",
      "coilv2-addressblock-viewer-role",
    ]);
    const token = await plane.serviceAccountToken({
      namespace: "kube-system",
      name: "coil-controller",
    });
    const controller = await plane.kubeconfigFor({ token });
    for (const [subject, table] of Object.entries(golden)) {
      const show = ["ipam", "show", subject];
      assert.equal((await coil(viewer, ...show)).out, table);
      assert.equal((await coil(controller, ...show)).out, table);
    }
    // Without the right to get nodes it cannot tell that there is none.
    const show = ["ipam", "show", "blocks", "--node=node9"];
    assert.deepEqual(await coil(viewer, ...show), {
      code: 0,
      out: "",
      err: "No blocks found\n",
    });
  });

  await t.step("as a program: stdout, exit codes, a closed pipe", async () => {
    const start = (script: string) =>
      new Deno.Command("bash", {
        args: ["-o", "pipefail", "-c", script],
        env: {
          COIL: coilCommand().join(" "),
          KUBECONFIG: config,
        },
      }).output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    const table = await start("$COIL ipam show blocks");
    assert.equal(ageless(text(table.stdout)), ageless(BLOCKS));
    assert.equal(table.code, 0);
    const closed = await start("$COIL ipam show addresses | head -c 1");
    assert.deepEqual([text(closed.stdout), closed.code], ["I", 0]);
    const wrong = await start("$COIL ipam shwo");
    assert.equal(wrong.code, 2);
    assert.match(
      text(wrong.stderr),
      /^Error: unknown command "ipam shwo": not show, map, check, drain\n/,
    );
  });

  await t.step("check finds what fits nothing, and nothing else", async () => {
    await breakBooks(plane);
    const check = ["ipam", "check", "-o=json"];
    const { code, out } = await coil(config, ...check, "--page-size=1");
    assert.equal(code, 3);
    const { problems, unseen } = JSON.parse(out) as {
      problems: { code: string; object: string }[];
      unseen: unknown[];
    };
    assert.deepEqual(unseen, []);
    const found = problems.map(({ code, object }) => `${code} ${object}`);
    assert.deepEqual(found.toSorted(), [
      "address-of-another-node Pod apps/moved",
      "address-outside-of-blocks Pod apps/lost",
      "block-without-node AddressBlock gone-0",
      "block-without-pool AddressBlock gone-0",
      "duplicate-address Pod apps/web-1",
      "duplicate-address Pod default/twin",
      "request-unanswered BlockRequest refused",
      "unknown-egress Pod default/twin",
      "unknown-pool Namespace apps",
    ]);
  });

  await t.step("check looks twice: what passes is not a problem", async () => {
    await plane.kubectl("delete", "pod/twin", "--force", "--grace-period=0");
    const before = await coil(config, "ipam", "check", "-o=json");
    assert.doesNotMatch(before.out, /duplicate-address/);
    await addPod(plane, ["default", "twin", "node2"], ["10.2.0.9"]);
    let looks = 0;
    const deleteBeforeSecond = () => {
      if (++looks === 2) deleteNow("pod/twin");
      return now;
    };
    const args = ["ipam", "check", "-o=json", `--kubeconfig=${config}`];
    const { out } = await runCoil(args, { now: deleteBeforeSecond });
    assert.equal(looks, 2);
    assert.doesNotMatch(out, /duplicate-address/);
  });

  await t.step("check says what it may not look at", async () => {
    const viewer = await plane.kubeconfigFor({ user: "viewer" });
    const { code, out } = await coil(viewer, "ipam", "check");
    assert.equal(code, 3);
    for (const what of ["namespaces", "nodes", "egresses"]) {
      assert.match(
        out,
        new RegExp(`^Not looked at: ${what} \\(forbidden\\)$`, "m"),
      );
    }
    assert.match(out, /Pod apps\/lost: has 10\.2\.0\.200 and fd02::c8/);
    assert.doesNotMatch(out, /its Node|Egress "/);
    const user = await plane.kubeconfigFor({ user: "nobody" });
    assert.equal((await coil(user, "ipam", "check")).code, 1);
  });

  await t.step(
    "without the API server it says which one it tried",
    async () => {
      await plane.killApiServer();
      const { code, err } = await coil(config, "ipam", "show");
      assert.equal(code, 1);
      assert.ok(err.includes(new URL(plane.url).host), err);
      assert.match(err, /kubeconfig/);
    },
  );

  /** Has deleted an object when it returns. */
  function deleteNow(object: string): void {
    const { success } = new Deno.Command(`${plane.programs}/kubectl`, {
      args: ["delete", object, "--force", "--grace-period=0"],
      env: { KUBECONFIG: config },
      stderr: "null",
      stdout: "null",
    }).outputSync();
    assert.ok(success);
  }

  /** The last column, which the seconds between two objects may tell apart. */
  function ageless(table: string): string {
    return table.replace(/ (\d+[smhd])+$/gm, " AGE");
  }
});
