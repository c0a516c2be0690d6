// Documents name metrics, flags, fields, conditions and Events. Each exists,
// and each metric is in a document.
import assert from "node:assert/strict";
import { CONTROLLER_LEASES } from "../../lib/names/mod.ts";
import { COMMANDS } from "../../roles/cli/mod.ts";
import { COILD_FLAGS } from "../../roles/coild/flags.ts";
import { CONTROLLER_FLAGS } from "../../roles/coil_controller/flags.ts";
import { EGRESS_FLAGS } from "../../roles/coil_egress/flags.ts";
import { INSTALLER_FLAGS } from "../../roles/coil_installer/flags.ts";
import {
  DUMP_FLAGS,
  REPLACE_FLAGS,
  STATUS_FLAGS,
} from "../../roles/coil_migrator/command/flags.ts";
import { ROUTER_FLAGS } from "../../roles/coil_router/flags.ts";
import { codeSpans, type Page, readPages, ROOT } from "./pages.ts";

const PAGES = await readPages();

/** The texts of all files below that end so, without tests. */
async function textBelow(place: string, ending: RegExp): Promise<string> {
  const texts: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(ROOT + place)) {
    const path = `${place}/${name}`;
    if (isDirectory) texts.push(await textBelow(path, ending));
    else if (ending.test(name) && !name.endsWith("_test.ts")) {
      texts.push(await Deno.readTextFile(ROOT + path));
    }
  }
  return texts.join("\n");
}

const CODE = await textBelow("lib", /\.ts$/) +
  await textBelow("roles", /\.ts$/);
const CRDS = await textBelow("crds", /\.yaml$/) +
  await textBelow("deploy/coordinator", /spidercoordinators\.yaml$/);
const MANIFESTS = CRDS + await textBelow("deploy", /\.(yaml|json|tpl)$/);

/** What the pages' code has of a pattern, with the page, but for what is known. */
function unknown(
  pattern: RegExp,
  isKnown: (found: string, page: Page) => boolean,
): string[] {
  let count = 0;
  const missing = PAGES.flatMap((page) =>
    codeSpans(page).flatMap((span) => span.match(pattern) ?? []).filter(
      (found) => {
        count++;
        return !isKnown(found, page);
      },
    ).map((found) => `${page.path}: ${found}`)
  );
  assert.ok(count > 50, `${pattern} is found ${count} times`);
  return missing;
}

const METRIC =
  /\bcoil_(?:coild|controller|coordinator|egress|router|vpc)_\w*\w\b(?!\.)/g;
const OF_HISTOGRAM = /_(?:bucket|count|sum)$/;

/** The names of our metrics, as patterns: some are made of a part that differs. */
const METRICS = [
  ...new Set(
    [...CODE.matchAll(/["`](coil_[a-z]+_[\w${}]*[\w}])["`]/g)].map((
      [, name = ""],
    ) => name.replaceAll(/\$\{\w+\}/g, "\\w+")),
  ),
].filter((name) => name.match(METRIC) !== null)
  .map((name) => new RegExp(`^${name}$`));

Deno.test("a metric that a document names is one of ours", () => {
  const isKnown = (name: string) =>
    METRICS.some((metric) =>
      metric.test(name) || metric.test(name.replace(OF_HISTOGRAM, ""))
    );
  assert.deepEqual(unknown(METRIC, isKnown), []);
});

Deno.test("each of our metrics is in a document", () => {
  const named = PAGES.flatMap(({ text }) => text.match(METRIC) ?? []);
  assert.ok(METRICS.length > 60, `${METRICS.length} metrics`);
  const missing = METRICS.filter((metric) =>
    !named.some((name) => metric.test(name))
  );
  assert.deepEqual(missing, []);
});

const FLAGS = new Set(
  [
    COILD_FLAGS,
    CONTROLLER_FLAGS,
    EGRESS_FLAGS,
    INSTALLER_FLAGS,
    ROUTER_FLAGS,
    DUMP_FLAGS,
    REPLACE_FLAGS,
    STATUS_FLAGS,
    ...COMMANDS.map(({ flags }) => flags),
  ].flatMap((flags) => Object.keys(flags)),
);
/** Of kubectl, kubeadm, the kubelet and V8; those of every program; the beginning of several. */
const OTHER_FLAGS =
  /^--(grace-period|pod-network-cidr|max-pods|max-semi-space-size|optimize-for-size|help|version|keep-)$/;
/** They are about tasks, which have flags of their own. */
const OF_TASKS =
  /^(README|docs\/image|docs\/performance|docs\/scale|docs\/testing)\.md$/;

Deno.test("a flag that a document names is one of our programs'", () => {
  const pattern = /(?<=^(?:coil[a-z-]* .*)?)--[a-z][a-z0-9-]*/g;
  const isKnown = (flag: string, { path }: Page) =>
    OF_TASKS.test(path) || FLAGS.has(flag.slice(2)) || OTHER_FLAGS.test(flag);
  assert.deepEqual(unknown(pattern, isKnown), []);
});

/** Of Kubernetes and the Prometheus operator; names of files. */
const OTHER_FIELDS =
  /^(status\.(podIPs|d|txt)|spec\.serviceMonitorSelector|spec\.template\.spec\.serviceAccountName)$/;

Deno.test("a field that a document names is in a definition", () => {
  const isKnown = (path: string) =>
    OTHER_FIELDS.test(path) ||
    path.split(".").slice(1).every((field) =>
      new RegExp(`^ +${field}:`, "m").test(CRDS)
    );
  const pattern = /\b(?:spec|status)(?:\.[a-zA-Z0-9]+)+/g;
  assert.deepEqual(unknown(pattern, isKnown), []);
});

/** Of Kubernetes, AWS and TLS; `KIND` in the second is Deployment or Service. */
const OTHER_WORDS =
  /^(FailedCreate|(Deployment|Service)Refused|TagSpecifications|UnknownIssuer)$/;

Deno.test("a condition, reason, Event or kind that a document names is in the code", () => {
  const words = new Set((CODE + MANIFESTS).match(/\b[A-Z][A-Za-z]+\b/g));
  const isKnown = (word: string) => words.has(word) || OTHER_WORDS.test(word);
  const pattern = /^[A-Z][a-z]+(?:[A-Z][A-Za-z]*)+$/g;
  assert.deepEqual(unknown(pattern, isKnown), []);
});

Deno.test("uninstall.md deletes each lease that coil-controller makes", () => {
  const guide = PAGES.find(({ path }) => path === "docs/uninstall.md");
  for (const lease of CONTROLLER_LEASES) {
    assert.ok(guide?.text.includes(`lease/${lease}`), lease);
  }
});
