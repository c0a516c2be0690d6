// coil connectivity test and its namespace: a real API server and
// kube-controller-manager, no kubelet. What it finds on nodes is tested by e2e.
import assert from "node:assert/strict";
import { egressLabels } from "../../lib/api/mod.ts";
import type { JsonObject } from "../../lib/json/mod.ts";
import { KubeClient } from "../../lib/kube/mod.ts";
import { readSite } from "../../roles/cli/connectivity/site.ts";
import { coil } from "../../roles/cli/testing.ts";
import { eventually, startCoilPlane } from "../lab/mod.ts";
import { coilCommand } from "./coild_lab.ts";
import { PodReporter } from "./connectivity_kubelet.ts";

const NAMESPACE = "coil-connectivity-test";
const PATH = `/api/v1/namespaces/${NAMESPACE}`;

Deno.test("coil connectivity test cleans up after itself, and touches nothing of others", async (t) => {
  await using plane = await startCoilPlane({
    name: "connectivity",
    controllerManager: true,
  });
  await using kubelet = new PodReporter(plane, ["node1", "node2"]);
  await kubelet.register();
  await using stack = new AsyncDisposableStack();
  const directory = await Deno.makeTempDir();
  stack.defer(() => Deno.remove(directory, { recursive: true }));
  // Each question to a pod fails: nothing runs there.
  await Deno.writeTextFile(
    `${directory}/kubectl`,
    '#!/bin/sh\necho "error: no kubelet" >&2\nexit 1\n',
    { mode: 0o700 },
  );

  /** Runs it in a process of its own, with the kubectl that reaches nothing. */
  const startOn = (path: string, ...args: readonly string[]) => {
    const [command, ...first] = coilCommand("connectivity", "test", ...args);
    return new Deno.Command(command, {
      args: [...first, "--image=example.com/coil:1"],
      env: {
        PATH: path,
        KUBECONFIG: plane.kubeconfig,
      },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  };
  const start = (...args: readonly string[]) =>
    startOn(`${directory}:${Deno.env.get("PATH")}`, ...args);
  const ended = async (child: Deno.ChildProcess) => {
    const { code, stdout, stderr } = await child.output();
    const [out, err] = [stdout, stderr]
      .map((bytes) => new TextDecoder().decode(bytes));
    return { code, out: out ?? "", err: err ?? "" };
  };
  const here = (...args: readonly string[]) =>
    coil(
      ["connectivity", "test", ...args, `--kubeconfig=${plane.kubeconfig}`],
      {
        signal: new AbortController().signal,
      },
    );
  const namespace = async () => {
    const [found] = (await plane.request("GET", "/api/v1/namespaces") as {
      items: { metadata: { name: string; labels: Record<string, string> } }[];
    }).items.filter(({ metadata }) => metadata.name === NAMESPACE);
    return found;
  };
  const pods = async () =>
    (await plane.request("GET", `${PATH}/pods`) as { items: unknown[] }).items;

  await t.step("without coild it does not know the image", async () => {
    const { code, err } = await here();
    assert.equal(code, 1);
    assert.match(err, /there is no DaemonSet of coild.*--image\n$/);
    assert.equal(await namespace(), undefined);
  });

  await t.step("without kubectl it creates nothing", async () => {
    const { code, err } = await ended(startOn("/nowhere"));
    assert.equal(code, 1);
    assert.equal(err, "Error: kubectl is not on PATH\n");
    assert.equal(await namespace(), undefined);
  });

  await t.step("a namespace of others is refused, and left alone", async () => {
    await plane.createNamespace(NAMESPACE);
    const { code, err } = await ended(start());
    assert.equal(code, 1);
    assert.match(
      err,
      /^Error: Cannot use Namespace "coil-connectivity-test": it exists, and no connectivity test made it\./,
    );
    assert.equal((await pods()).length, 0);
    assert.ok(await namespace() !== undefined);
    await plane.kubectl("delete", "namespace", NAMESPACE);
  });

  await t.step(
    "an Egress that is not there, or has no gateways, is named",
    async () => {
      const egress = ["--egress=nat/out", "--target=http://203.0.113.7/"];
      const missing = await here("--image=x", ...egress);
      assert.equal(missing.code, 1);
      assert.match(
        missing.err,
        /Cannot test Egress "nat\/out": it does not exist/,
      );
      await plane.createNamespace("nat");
      await plane.apply({
        apiVersion: "coil.cybozu.com/v2",
        kind: "Egress",
        metadata: { namespace: "nat", name: "out" },
        spec: { destinations: ["203.0.113.0/24"] },
      });
      const { err } = await here("--image=x", ...egress);
      assert.match(
        err,
        /no gateways\. See: coil egress show gateways nat\/out\n$/,
      );
      assert.equal(await namespace(), undefined);
    },
  );

  await t.step(
    "a gateway that the Egress' status does not show yet is one",
    async () => {
      const of = "/apis/coil.cybozu.com/v2/namespaces/nat/egresses/out/status";
      const merge = { contentType: "application/merge-patch+json" };
      const patch = (uri: string, status: JsonObject) =>
        plane.request("PATCH", uri, { status }, merge);
      await patch(of, { sources: ["10.65.0.64"] });
      const pod = (name: string, egress: string) => ({
        apiVersion: "v1",
        kind: "Pod",
        metadata: { namespace: "nat", name, labels: egressLabels(egress) },
        spec: { containers: [{ name: "egress", image: "coil" }] },
      });
      for (
        const [name, egress, ip] of [
          ["new", "out", "10.65.0.1"],
          ["other", "other", "10.65.0.2"],
        ] as const
      ) {
        // The namespace's service account may yet have to be made.
        await eventually("the pod", async () => {
          await plane.apply(pod(name, egress));
          return true;
        });
        await patch(
          `/api/v1/namespaces/nat/pods/${name}/status`,
          { podIP: ip, podIPs: [{ ip }] },
        );
      }
      using client = await KubeClient.load({ kubeconfig: plane.kubeconfig });
      const { sources } = await readSite(client, {
        pageSize: 500,
        image: "x",
        egress: { namespace: "nat", name: "out" },
        signal: new AbortController().signal,
      });
      assert.deepEqual(sources, ["10.65.0.64", "10.65.0.1"]);
    },
  );

  await t.step("what cannot be asked is unknown, not well", async () => {
    const { code, out, err } = await ended(start());
    assert.equal(code, 1, err);
    for (
      const pod of [
        "probe-0 on Node node1",
        "host-port-0 on Node node1",
        "probe-1 on Node node2",
      ]
    ) {
      assert.ok(out.includes(`UNKNOWN: Pod ${pod} (error: no kubelet)\n`), out);
    }
    assert.match(err, /\nRemoving Namespace coil-connectivity-test\n$/);
    assert.equal(await namespace(), undefined);
  });

  kubelet.pods = "without image";

  await t.step("a pod without image is not coild's problem", async () => {
    const { code, out, err } = await ended(
      start("--host-port=0", "-n=other-namespace"),
    );
    assert.equal(code, 3, err);
    assert.ok(
      out.includes(`
  Node node2: a pod did not start there: Back-off pulling image "x"
      coil connectivity test --keep -n other-namespace; kubectl -n other-namespace describe pods
`),
      out,
    );
  });

  kubelet.pods = "without network";

  await t.step(
    "pods that do not start are problems of their nodes",
    async () => {
      const { code, out } = await ended(
        start("--timeout=2s", "-o=json", "--host-port=0"),
      );
      assert.equal(code, 3);
      const { problems } = JSON.parse(out);
      assert.deepEqual(
        problems.map((
          p: { cause: string; object: string; next: string },
        ) => `${p.cause} ${p.object} > ${p.next}`),
        ["node1", "node1", "node2"].map((node) =>
          `start Node ${node} > kubectl -n kube-system get pods -o wide --field-selector=spec.nodeName=${node}`
        ),
      );
      assert.equal(await namespace(), undefined);
    },
  );

  /** One that waits for its pods. */
  const waiting = async () => {
    const child = start();
    await eventually("its pods", async () => (await pods()).length === 3);
    return child;
  };

  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    await t.step(`${signal} leaves nothing`, async () => {
      const child = await waiting();
      child.kill(signal);
      const { code, out, err } = await ended(child);
      assert.deepEqual([code, out], [1, ""]);
      assert.match(
        err,
        /\nRemoving Namespace coil-connectivity-test\nError: Interrupted\n$/,
      );
      assert.equal(await namespace(), undefined);
    });
  }

  await t.step(
    "while one runs, another one is refused; what a killed one left is said and removed",
    async () => {
      const child = await waiting();
      const second = await here("--image=example.com/coil:1");
      assert.equal(second.code, 1);
      assert.match(second.err, /another connectivity test runs in it/);
      assert.equal((await pods()).length, 3);
      child.kill("SIGKILL");
      await ended(child);
      const left = await namespace();
      assert.ok(left !== undefined);
      const third = await ended(start("--timeout=2s", "--keep"));
      assert.equal(third.code, 3, third.err);
      assert.match(
        third.err,
        /^Namespace coil-connectivity-test exists: checking whether its test still runs\nRemoving Namespace coil-connectivity-test of an interrupted test\nTesting 2 nodes\n/,
      );
      assert.match(third.err, /\nNamespace coil-connectivity-test is kept\./);
      assert.ok(await namespace() !== undefined);
      await plane.kubectl("delete", "namespace", NAMESPACE);
    },
  );

  await t.step(
    "an account that may not create namespaces learns which rights it needs",
    async () => {
      await plane.apply({
        apiVersion: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRole",
        metadata: { name: "reader" },
        rules: [{
          apiGroups: ["", "apps"],
          resources: ["nodes", "pods", "services", "namespaces", "daemonsets"],
          verbs: ["get", "list"],
        }],
      });
      await plane.kubectl(
        ...["create", "clusterrolebinding", "reader"],
        ...["--clusterrole=reader", "--user=reader"],
      );
      for (const user of ["reader", "without-any"]) {
        const kubeconfig = await plane.kubeconfigFor({ user });
        const test = start(`--kubeconfig=${kubeconfig}`);
        const { code, err } = await ended(test);
        assert.equal(code, 1);
        assert.match(
          err,
          /forbidden.*\nThe test creates a namespace .* it needs the rights of an administrator\.\n$/,
        );
      }
    },
  );
});
