import assert from "node:assert/strict";
import { CniError } from "../../cni/mod.ts";
import { isLogged, logOptionsOf, parseLogOptions } from "./log_options.ts";

Deno.test("isLogged() knows upstream's levels, in any case", () => {
  const logged = (logLevel: string | null) => {
    const options = logOptionsOf({ raw: { logOptions: { logLevel } } });
    return (["info", "warn"] as const).filter((level) =>
      isLogged(level, options)
    );
  };
  assert.deepEqual(logged(null), ["info", "warn"]);
  assert.deepEqual(logged("debug"), ["info", "warn"]);
  assert.deepEqual(logged("INFO"), ["info", "warn"]);
  assert.deepEqual(logged("Warn"), ["warn"]);
  for (const level of ["error", "fatal", "panic"]) {
    assert.deepEqual(logged(level), [], level);
  }
});

Deno.test("parseLogOptions() reads upstream's levels as Coil's", () => {
  const levels = ["debug", "info", "warn", "error", "fatal", "panic"];
  assert.deepEqual(
    levels.map((logLevel) => parseLogOptions({ logLevel }).level),
    ["debug", "info", "warn", "error", "none", "none"],
  );
});

Deno.test("logOptionsOf() takes nothing of what cannot be used", () => {
  const of = (logOptions: Parameters<typeof logOptionsOf>[0]["raw"][string]) =>
    logOptionsOf({ raw: { logOptions } });
  assert.deepEqual(of({ logLevel: "loud" }), {});
  assert.deepEqual(of("nonsense"), {});
  assert.deepEqual(
    of({ logFile: " /var/log/spidernet/coordinator.log ", logMaxSize: 5 }),
    {
      level: undefined,
      file: "/var/log/spidernet/coordinator.log",
      maxSizeMib: 5,
    },
  );
});

Deno.test("parseLogOptions() names the option that has another type", () => {
  for (
    const [option, value] of [
      ["logLevel", 5],
      ["logFile", 5],
      ["logMaxSize", "large"],
    ] as const
  ) {
    assert.throws(
      () => parseLogOptions({ [option]: value }),
      (error) =>
        error instanceof CniError &&
        `${error.message} ${error.details}`.includes(`logOptions.${option}`),
    );
  }
});
