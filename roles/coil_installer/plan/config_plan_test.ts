import assert from "node:assert/strict";
import { noticesOf, planChain, planConfig } from "./config_plan.ts";
import { withNote } from "./merge.ts";
import {
  parseNetworkList,
  parseWantedList,
  typesOf,
} from "../base/network_list.ts";
import { type ConfigFile, examine, isLoaded } from "../read/situation.ts";

const NAME = "10-coil.conflist";
const WANTED = parseWantedList(
  '{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"coil"},{"type":"portmap"}]}',
);
const OURS = JSON.stringify(withNote(WANTED, WANTED));

type Files = Readonly<Record<string, string | Partial<ConfigFile>>>;

function filesOf(files: Files): ConfigFile[] {
  return Object.entries(files).map(([name, file]) => ({
    name,
    text: "",
    mode: 0o600,
    isLink: false,
    ...(typeof file === "string" ? { text: file } : file),
  }));
}

/** The steps in words, and how serious the notices are. */
function plan(
  files: Files,
  others: "keep" | "disable" = "keep",
): { steps: string[]; warned: number; types: readonly string[] } {
  const situation = examine(filesOf(files), NAME);
  const chain = planChain(WANTED, situation);
  const steps = planConfig({
    directory: "/d",
    name: NAME,
    json: withNote(chain.list, WANTED),
    isLossy: chain.isLossy,
    others,
  }, situation);
  const notices = [
    ...chain.notices,
    ...noticesOf(situation, { others, directory: "/d" }),
  ];
  return {
    steps: steps.map((step) => {
      const name = (path: string) => path.replace("/d/", "");
      switch (step.kind) {
        case "keepCopy":
          return `keep ${name(step.path)} as ${name(step.as)}`;
        case "rename":
          return `rename ${name(step.path)} to ${name(step.to)}`;
        default:
          return `${step.kind} ${name(step.path)}`;
      }
    }),
    warned: notices.filter(({ level }) => level === "warn").length,
    types: typesOf(chain.list),
  };
}

const WRITE = `writeConfig ${NAME}`;
const list = (...types: string[]) =>
  JSON.stringify({
    cniVersion: "1.0.0",
    name: "other",
    plugins: types.map((type) => ({ type })),
  });

Deno.test("planConfig() writes where there is nothing", () => {
  assert.deepEqual(plan({}).steps, [WRITE]);
});

Deno.test("planConfig() leaves alone what is right, however it is formatted", () => {
  const { json } = parseNetworkList(OURS);
  const reversed = Object.fromEntries(Object.entries(json).reverse());
  for (const text of [OURS, JSON.stringify(reversed, undefined, 4)]) {
    assert.deepEqual(plan({ [NAME]: text }), {
      steps: [],
      warned: 0,
      types: ["coil", "portmap"],
    });
  }
});

Deno.test("planConfig() sets the mode of what others can read", () => {
  assert.deepEqual(
    plan({ [NAME]: { text: OURS, mode: 0o644 } }).steps,
    [`setMode ${NAME}`],
  );
});

Deno.test("planConfig() replaces a symbolic link that leads anywhere", () => {
  assert.deepEqual(
    plan({ [NAME]: { text: OURS, isLink: true } }).steps,
    [WRITE],
  );
});

Deno.test("planConfig() keeps a copy of a malformed file, always under one name", () => {
  const { steps, warned } = plan({ [NAME]: "{" });
  assert.deepEqual(steps, [
    `keep ${NAME} as ${NAME}.coil-saved-021fb596`,
    WRITE,
  ]);
  assert.equal(warned, 1);
  assert.equal(isLoaded(`${NAME}.coil-saved-021fb596`), false);
});

Deno.test("planConfig() keeps another network's file of our name for uninstall", () => {
  const { steps, types, warned } = plan({ [NAME]: list("bridge", "firewall") });
  assert.deepEqual(steps, [`keep ${NAME} as ${NAME}.coil-disabled`, WRITE]);
  assert.deepEqual(
    types,
    ["coil", "portmap"],
    "their main plugin is not mixed in",
  );
  assert.equal(warned, 1);
});

Deno.test("planConfig() keeps a copy when a plugin has to go", () => {
  const { steps, types, warned } = plan({ [NAME]: list("ptp", "coil") });
  assert.match(steps[0] ?? "", /^keep 10-coil\.conflist as .*\.coil-saved-/);
  assert.deepEqual(types, ["coil", "portmap"]);
  assert.equal(warned, 1);
});

Deno.test("planConfig() moves to a new name with what others had added, and only then removes the old one", () => {
  const added = JSON.parse(OURS);
  added.plugins.push({ type: "istio-cni" });
  const { steps, types } = plan({ "01-coil.conflist": JSON.stringify(added) });
  assert.deepEqual(steps, [WRITE, "remove 01-coil.conflist"]);
  assert.deepEqual(types, ["coil", "portmap", "istio-cni"]);
});

Deno.test("planConfig() never removes what it did not write", () => {
  const files = {
    "01-upstream.conflist": list("coil"),
    "05-cilium.conflist": list("coil", "cilium-cni"),
    "10-calico.conflist": list("calico"),
    "99-loopback.conf": '{"type":"loopback","name":"lo"}',
    "README": "x",
    "10-coil.conflist.cilium_bak": OURS,
    "junk.conflist": "}",
  };
  assert.deepEqual(plan(files).steps, [WRITE]);
});

Deno.test("planConfig() warns of files that a runtime takes before ours, and disables them if asked", () => {
  const files = {
    "05-empty.conf": "",
    "10-calico.conflist": list("calico"),
    "10-kindnet.conflist": list("ptp"),
    "99-last.json": "{}",
  };
  assert.deepEqual(plan(files), {
    steps: [WRITE],
    warned: 1,
    types: ["coil", "portmap"],
  });
  assert.deepEqual(plan(files, "disable"), {
    steps: [
      WRITE,
      "rename 05-empty.conf to 05-empty.conf.coil-disabled",
      "rename 10-calico.conflist to 10-calico.conflist.coil-disabled",
    ],
    warned: 0,
    types: ["coil", "portmap"],
  });
});

Deno.test("planConfig() does not take what leads to coil for a rival", () => {
  const delegates = {
    name: "multus",
    type: "multus",
    delegates: [JSON.parse(list("coil"))],
  };
  const files = {
    "00-multus.conf": JSON.stringify(delegates),
    "00-thick.conf":
      `{"type":"multus","clusterNetwork":"/etc/cni/net.d/${NAME}"}`,
    "05-cilium.conflist": list("coil", "cilium-cni"),
  };
  assert.deepEqual(plan(files, "disable").steps, [WRITE]);
  assert.equal(plan(files).warned, 0);
});
