import assert from "node:assert/strict";
import type { Package } from "./packages.ts";
import { listNpmPackages, npmPackagesOf, planSbom } from "./sbom.ts";

const node = (name: string, version: string, ...dependencies: string[]) => ({
  name,
  version,
  dependencies,
});

Deno.test("npmPackagesOf() follows what is imported, each package once", () => {
  const found = npmPackagesOf({
    modules: [{ kind: "esm" }, { kind: "npm", npmPackage: "@a/b@1.0.0" }],
    npmPackages: {
      "@a/b@1.0.0": node("@a/b", "1.0.0", "c@2.0.0_d@1.0.0", "d@1.0.0"),
      "c@2.0.0_d@1.0.0": node("c", "2.0.0", "@a/b@1.0.0"),
      "c@2.0.0": node("c", "2.0.0"),
      "d@1.0.0": node("d", "1.0.0", "c@2.0.0", "optional@9.9.9"),
      "only-for-tests@3.0.0": node("only-for-tests", "3.0.0"),
    },
  });
  assert.deepEqual(found.map(({ purl }) => purl), [
    "pkg:npm/%40a/b@1.0.0",
    "pkg:npm/c@2.0.0",
    "pkg:npm/d@1.0.0",
  ]);
});

Deno.test("listNpmPackages() lists what the executable has, not what tests need", async () => {
  const names = (await listNpmPackages()).map(({ name }) => name);
  for (const name of ["@logtape/logtape", "preact", "prom-client", "yaml"]) {
    assert.ok(names.includes(name), name);
  }
  for (const name of ["fast-check", "ip-num"]) {
    assert.ok(!names.includes(name), name);
  }
});

Deno.test("planSbom() names each package with a package URL", () => {
  const kmod: Package = {
    name: "kmod",
    control: "Package: kmod\nVersion: 1:30+2-1~x\nArchitecture: amd64\n",
    entries: [],
  };
  const parts = {
    debian: [kmod],
    npm: [{ name: "a", version: "1.0.0", purl: "pkg:npm/a@1.0.0" }],
    deno: "2.9.6",
    created: 86400,
  };
  const text = planSbom(parts);
  assert.equal(planSbom(parts), text);
  const sbom = JSON.parse(text);
  assert.equal(sbom.creationInfo.created, "1970-01-02T00:00:00Z");
  const locators: string[] = sbom.packages.slice(1)
    .map((each: { externalRefs: [{ referenceLocator: string }] }) =>
      each.externalRefs[0].referenceLocator
    );
  assert.deepEqual(locators, [
    "pkg:deb/debian/kmod@1%3A30%2B2-1~x?arch=amd64",
    "pkg:github/denoland/deno@v2.9.6",
    "pkg:npm/a@1.0.0",
  ]);
  const ids: string[] = sbom.packages.map((p: { SPDXID: string }) => p.SPDXID);
  assert.equal(new Set(ids).size, 4);
  for (const id of ids) assert.match(id, /^SPDXRef-[a-zA-Z0-9.-]+$/);
  const contained = sbom.relationships
    .map((r: { relatedSpdxElement: string }) => r.relatedSpdxElement);
  assert.deepEqual(contained, ids);
  const other = planSbom({ ...parts, deno: "2.9.7" });
  assert.notEqual(
    JSON.parse(other).documentNamespace,
    sbom.documentNamespace,
  );
});
