import assert from "node:assert/strict";
import { egressLabels } from "../../../lib/api/mod.ts";
import { KubeApiError } from "../../../lib/kube/mod.ts";
import { egressOf } from "../testing.ts";
import { UnknownImageError } from "./image.ts";
import { NameTakenError, ownerCheck, problemOf } from "./problems.ts";
import { InvalidTemplateError } from "./template.ts";

const OPTIONS = { kind: "Service", isFatal: true };

Deno.test("problemOf() names what an admin can mend", () => {
  for (
    const [error, reason] of [
      [new InvalidTemplateError("why"), "InvalidTemplate"],
      [new UnknownImageError("why"), "UnknownImage"],
      [new NameTakenError("why"), "NameTaken"],
      ...[400, 403, 404, 422, 500].map((status) =>
        [new KubeApiError("why", { status }), "ServiceRefused"] as const
      ),
    ] as const
  ) {
    const expected = { reason, message: "why", isFatal: true };
    assert.deepEqual(problemOf(error, OPTIONS), expected);
  }
});

Deno.test("problemOf() throws transient errors, and mistakes", () => {
  for (
    const error of [
      new TypeError("why"),
      ...[401, 408, 409, 429, 502, 503, 504].map((status) =>
        new KubeApiError("why", { status })
      ),
    ]
  ) {
    assert.throws(() => problemOf(error, OPTIONS), error);
  }
});

Deno.test("ownerCheck() accepts what the Egress owns, and Coil's objects without an owner", () => {
  const check = ownerCheck(egressOf(), "Service");
  const labels = egressLabels("nat");
  const owner = (
    kind: string,
    name: string,
    uid: string,
    controller = true,
  ) => ({ apiVersion: "v1", kind, name, uid, controller });
  const own = owner("Egress", "nat", "uid-of-nat");
  check({ metadata: { ownerReferences: [own] } });
  check({ metadata: { labels } });
  const other = owner("Job", "nat", "x", false);
  check({ metadata: { labels, ownerReferences: [other] } });
  for (
    const [metadata, message] of [
      [{}, /Service "internet\/nat": it was not made by Coil/],
      [{ labels: egressLabels("other") }, /it was not made by Coil/],
      [
        { labels, ownerReferences: [owner("Egress", "nat", "x")] },
        /it belongs to an earlier Egress of this name/,
      ],
      [
        { labels, ownerReferences: [owner("Egress", "other", "x")] },
        /it belongs to Egress "other"; give the Egress another name/,
      ],
      [
        { labels, ownerReferences: [other, owner("Job", "nat", "x")] },
        /it belongs to Job "nat"; give the Egress another name/,
      ],
    ] as const
  ) {
    const found = {
      metadata: {
        ...metadata,
        ...("ownerReferences" in metadata &&
          { ownerReferences: [...metadata.ownerReferences] }),
      },
    };
    const error = { name: "NameTakenError", message };
    assert.throws(() => check(found), error);
  }
});
