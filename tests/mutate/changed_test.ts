import assert from "node:assert/strict";
import { linesOf } from "./changed.ts";

const DIFF = `diff --git a/lib/a.ts b/lib/a.ts
--- a/lib/a.ts
+++ b/lib/a.ts
@@ -3 +3,2 @@ function a() {
-old
+new
+more
@@ -9,2 +10,0 @@
-gone
-gone
@@ -20 +19 @@
-old
+new
diff --git a/lib/b.ts b/lib/b.ts
--- /dev/null
+++ b/lib/b.ts
@@ -0,0 +1 @@
+new
`;

Deno.test("linesOf() has the lines that a diff adds", () => {
  assert.deepEqual(
    linesOf(DIFF),
    new Map([
      ["lib/a.ts", new Set([3, 4, 19])],
      ["lib/b.ts", new Set([1])],
    ]),
  );
});
