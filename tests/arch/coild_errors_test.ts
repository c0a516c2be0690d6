// docs/roles/coild.md lists how ADD fails and which Event a pod gets then.
import assert from "node:assert/strict";
import { codeName } from "../../lib/grpc/mod.ts";
import * as ipam from "../../lib/ipam/mod.ts";
import * as netlink from "../../lib/netlink/mod.ts";
import * as errors from "../../roles/coild/base/errors.ts";
import { failureOf } from "../../roles/coild/observe/cni_errors.ts";
import { ROOT } from "./pages.ts";

const text = await Deno.readTextFile(`${ROOT}docs/roles/coild.md`);

/** Rows of a section's table, as the texts of their cells. */
function rowsOf(title: string): string[][] {
  const [, section = ""] = text.split(new RegExp(`^#+ ${title}\n`, "m"));
  const [own = ""] = section.split(/^#/m);
  const lines = own.split("\n").filter((line) => line.startsWith("|"));
  return lines.slice(2).map((line) =>
    line.split("|").slice(1, -1).map((cell) => cell.trim())
  );
}

/** gRPC code, CNI code and Event of each class of errors that has an Event. */
function failuresWithEvent(): string[] {
  const all = [ipam, netlink, errors].flatMap((unit) => Object.values(unit));
  const failures = all.flatMap((exported) => {
    const prototype: unknown = typeof exported === "function"
      ? exported.prototype
      : undefined;
    if (!(prototype instanceof Error)) return [];
    const { status, code, event } = failureOf(Object.create(prototype));
    return event === undefined ? [] : `${codeName(status)} ${code} ${event}`;
  });
  return [...new Set(failures)].sort();
}

Deno.test("coild.md has the codes and the Event of each error that a pod's owner sees", () => {
  const rows = rowsOf("Errors").flatMap(([, grpc, cni, event = ""]) =>
    event === "" ? [] : `${grpc} ${cni} ${event.replaceAll("`", "")}`
  );
  assert.ok(rows.length > 5);
  assert.deepEqual(rows.sort(), failuresWithEvent());
});
