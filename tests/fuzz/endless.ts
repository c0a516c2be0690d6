// Not one of the suites' files: the watchdog's test runs it, and it must not come to its end.
import { Coverage } from "./coverage.ts";
import { fuzz } from "./fuzzer.ts";

Deno.test("a reader without an end", async () => {
  using coverage = await Coverage.start();
  const run = ({ text }: { readonly text: string }) => {
    while (text.includes("loop"));
  };
  await fuzz({ name: "endless", kind: "text", run }, [`"a"`, `"the loop"`], {
    seed: 1,
    coverage,
    limitMs: 300,
    isOver: () => false,
  });
});
