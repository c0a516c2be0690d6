import assert from "node:assert/strict";
import {
  candidates,
  completion,
  type CompletionCommand,
  defineFlags,
  LOGGING_FLAGS,
  loggingChoice,
  readCommandLine,
  UsageError,
} from "./mod.ts";
import { flagsMarkdown } from "./testing.ts";

const INFO = { program: "coild", version: "1.2.3", about: "A daemon." };
const FLAGS = defineFlags({
  "socket": {
    type: "string",
    default: "/run/x.sock",
    help: "Path of the socket",
  },
  "enable-ipam": { type: "bool", default: true, help: "Give addresses" },
  "pod-table-id": {
    type: "int",
    default: 116,
    min: 1,
    max: 252,
    help: "Table",
  },
  "gc-interval": {
    type: "duration",
    default: 3_600_000,
    help: "Time | between runs",
  },
  "retry": { type: "duration", default: 1000, min: 1000, help: "Pause" },
  "names": { type: "stringList", default: ["a"], help: "Names" },
  "backend": {
    type: "enum",
    default: "nft",
    values: ["nft", "none"],
    help: "Backend",
  },
  "old": { type: "string", default: "", help: "Old", deprecated: "not needed" },
  ...LOGGING_FLAGS,
});

function read(...args: string[]) {
  const line = readCommandLine(FLAGS, args, INFO);
  assert.equal(line.kind, "run");
  if (line.kind !== "run") throw new Error("unreachable");
  return line;
}

Deno.test("readCommandLine() gives the defaults, typed", () => {
  const { values, given } = read();
  const socket: string = values.socket;
  const ipam: boolean = values["enable-ipam"];
  const backend: "nft" | "none" = values.backend;
  assert.deepEqual([
    socket,
    ipam,
    backend,
    values["pod-table-id"],
    values["gc-interval"],
  ], [
    "/run/x.sock",
    true,
    "nft",
    116,
    3_600_000,
  ]);
  assert.deepEqual(values.names, ["a"]);
  assert.equal(given.size, 0);
});

Deno.test("readCommandLine() takes both forms of values, and booleans without one", () => {
  const { values, given } = read(
    "--socket",
    "/a",
    "--pod-table-id=7",
    "--enable-ipam=false",
    "--gc-interval",
    "1m",
    "--names=x,y",
    "--names",
    "z",
  );
  assert.equal(values.socket, "/a");
  assert.equal(values["pod-table-id"], 7);
  assert.equal(values["enable-ipam"], false);
  assert.equal(values["gc-interval"], 60_000);
  assert.deepEqual(values.names, ["x", "y", "z"]);
  assert.ok(given.has("socket") && !given.has("backend"));
  assert.equal(
    read("--enable-ipam=F", "--enable-ipam").values["enable-ipam"],
    true,
  );
  assert.equal(read("--socket=a=b").values.socket, "a=b");
  assert.equal(read("--pod-table-id=0x74").values["pod-table-id"], 116);
  assert.equal(read("--socket", "-dash").values.socket, "-dash");
});

for (
  const [args, reason] of [
    [["--nope"], "unknown flag: --nope"],
    [["--nope=1"], "unknown flag: --nope"],
    [["--toString"], "unknown flag: --toString"],
    [["-x"], "unknown shorthand flag: -x"],
    [["--socket"], "flag needs an argument: --socket"],
    [
      ["--enable-ipam=yes"],
      'invalid argument "yes" for "--enable-ipam": needs true or false',
    ],
    [
      ["--enable-ipam=constructor"],
      'invalid argument "constructor" for "--enable-ipam": needs true or false',
    ],
    [
      ["-v=9007199254740993"],
      'invalid argument "9007199254740993" for "--v": is out of range',
    ],
    [
      ["--gc-interval=-1s"],
      'invalid argument "-1s" for "--gc-interval": needs at least 0s',
    ],
    [
      ["--retry=999ms"],
      'invalid argument "999ms" for "--retry": needs at least 1s',
    ],
    [["--enable-ipam", "false"], "unexpected argument: false"],
    [
      ["--pod-table-id", "08"],
      'invalid argument "08" for "--pod-table-id": needs a whole number',
    ],
    [
      ["--pod-table-id=253"],
      'invalid argument "253" for "--pod-table-id": needs a number from 1 to 252',
    ],
    [
      ["--gc-interval", "10"],
      'invalid argument "10" for "--gc-interval": needs a duration like "10s" or "1h0m0s"',
    ],
    [
      ["--backend=iptables"],
      'invalid argument "iptables" for "--backend": needs one of nft, none',
    ],
    [
      ["--zap-log-level=loud"],
      /^invalid argument "loud" for "--zap-log-level"/,
    ],
    [["extra"], "unexpected argument: extra"],
  ] as const
) {
  Deno.test(`readCommandLine() refuses ${args.join(" ")}`, () => {
    assert.throws(() => read(...args), (error) => {
      assert.ok(error instanceof UsageError);
      if (typeof reason === "string") assert.equal(error.message, reason);
      else assert.match(error.message, reason);
      return true;
    });
  });
}

Deno.test("readCommandLine() refuses a number below the least, where there is no largest", () => {
  const flags = defineFlags({
    "lines": { type: "int", default: 10, min: 1, help: "Lines" },
  });
  assert.throws(
    () => readCommandLine(flags, ["--lines=0"], INFO),
    /^UsageError: invalid argument "0" for "--lines": needs at least 1$/,
  );
});

Deno.test("readCommandLine() keeps positional arguments when there may be some", () => {
  const line = readCommandLine(FLAGS, ["a", "--socket=/s", "--", "--b"], {
    ...INFO,
    positionals: "NAME",
  });
  assert.ok(line.kind === "run");
  assert.deepEqual(line.positionals, ["a", "--b"]);
});

Deno.test("readCommandLine() answers --version and --help, also after other flags", () => {
  assert.deepEqual(
    readCommandLine(FLAGS, ["--backend=nft", "--version"], INFO),
    {
      kind: "print",
      text: "coild version 1.2.3\n",
    },
  );
  for (const form of ["-h", "--help"]) {
    const help = readCommandLine(FLAGS, [form], INFO);
    assert.ok(help.kind === "print");
    assert.match(help.text, /^A daemon\.\n\nUsage:\n {2}coild \[flags\]\n/);
    assert.match(
      help.text,
      / --gc-interval duration +Time \| between runs \(default 1h0m0s\)\n/,
    );
    assert.doesNotMatch(help.text, /skip_headers/, "hidden");
  }
});

Deno.test("readCommandLine() takes every logging flag of upstream's manifests", () => {
  const { values } = read(
    "--zap-devel=false",
    "--zap-encoder=console",
    "--zap-log-level=3",
    "--zap-stacktrace-level=panic",
    "--zap-time-encoding=rfc3339nano",
    "--v=4",
    "-v=5",
    "-v",
    "6",
    "--vmodule=a=1",
    "--logtostderr",
    "--alsologtostderr",
    "--alsologtostderrthreshold=1",
    "--stderrthreshold=1",
    "--legacy_stderr_threshold_behavior",
    "--log_dir=/x",
    "--log_file=/x",
    "--log_file_max_size=1",
    "--log_backtrace_at=a.go:1",
    "--add_dir_header",
    "--skip_headers",
    "--skip_log_headers",
    "--one_output",
  );
  assert.equal(values.v, 6);
});

Deno.test("loggingChoice() lets flags that were given win over --zap-devel", () => {
  const choose = (...args: string[]) => {
    const { values, given } = read(...args);
    return loggingChoice(values, given);
  };
  assert.deepEqual(choose(), {
    level: "info",
    encoder: "json",
    timeEncoding: "epoch",
    stacktraceLevel: "panic",
  });
  assert.deepEqual(choose("--zap-devel"), {
    level: "debug",
    encoder: "console",
    timeEncoding: "iso8601",
    stacktraceLevel: "error",
  });
  assert.equal(choose("--zap-devel", "--zap-encoder=json").encoder, "json");
  assert.equal(choose("--zap-log-level=2").level, "debug");
  assert.equal(choose("--zap-log-level=ERROR").level, "error");
});

Deno.test("flagsMarkdown() lists visible flags as a table", () => {
  const text = flagsMarkdown(FLAGS);
  assert.match(
    text,
    /\n\| `--gc-interval` \| duration \| `1h0m0s` \| Time \\\| between runs \|\n/,
  );
  assert.match(
    text,
    /\n\| `--old` \| string \| {2}\| Old \(ignored: not needed\) \|\n/,
  );
  assert.doesNotMatch(text, /vmodule/);
});

const COMPLETED: readonly CompletionCommand[] = [
  { path: "", help: "", flags: {} },
  { path: "ipam", help: "Addresses", flags: {} },
  {
    path: "ipam show",
    help: "Show",
    flags: defineFlags({
      output: {
        type: "enum",
        default: "table",
        values: ["table", "json"],
        help: "Form",
      },
      pool: {
        type: "string",
        default: "",
        listedBy: "pools",
        help: "Only this",
      },
      wide: { type: "bool", default: false, help: "More" },
      size: { type: "int", default: 1, help: "How many" },
    }),
  },
  { path: "ipam map", help: "Draw", flags: {}, argumentListedBy: "pools" },
];

Deno.test("completion() for bash offers commands, flags and enum values", async () => {
  const script = completion("bash", "coil", COMPLETED);
  const offer = async (...words: string[]) => {
    const run = `${script}\nCOMP_WORDS=(${
      words.map((w) => `'${w}'`).join(" ")
    }); COMP_CWORD=${words.length - 1}\n_coil; echo "\${COMPREPLY[@]}"`;
    const { stdout } = await new Deno.Command("bash", { args: ["-c", run] })
      .output();
    return new TextDecoder().decode(stdout).trim();
  };
  assert.equal(await offer("coil", ""), "ipam --help");
  assert.equal(await offer("coil", "ipam", "s"), "show");
  assert.equal(await offer("coil", "ipam", "show", "--o"), "--output");
  assert.equal(await offer("coil", "ipam", "show", "--output", "j"), "json");
  assert.equal(
    await offer("coil", "ipam", "show", "--output", "json", "--o"),
    "--output",
    "a value is no command",
  );
});

for (
  const [line, words, listedBy] of [
    ["", ["ipam", "--help"], undefined],
    ["ip", ["ipam"], undefined],
    ["ipam ", ["show", "map", "--help"], undefined],
    ["ipam show --w", ["--wide"], undefined],
    ["ipam show --output ", ["table", "json"], undefined],
    ["ipam show --output j", ["json"], undefined],
    ["ipam show --output json --p", ["--pool"], undefined],
    ["ipam show --wide --s", ["--size"], undefined],
    ["ipam show --pool ", [], "pools"],
    ["ipam show --size ", [], undefined],
    ["ipam map ", ["--help"], "pools"],
    ["ipam map b", [], "pools"],
    ["ipam show --constructor ", [
      ...["--output", "--pool", "--wide", "--size", "--help"],
    ], undefined],
    ["nonsense ", ["ipam", "--help"], undefined],
  ] as const
) {
  Deno.test(`candidates() of "${line}"`, () => {
    const found = candidates(line.split(" "), COMPLETED);
    assert.deepEqual([found.words, found.listedBy], [[...words], listedBy]);
  });
}

Deno.test("completion() for zsh and fish names every command and flag", () => {
  const commands = [
    {
      path: "ipam show",
      help: "Show what's there",
      flags: defineFlags({
        all: { type: "bool", default: false, help: "All" },
      }),
    },
  ];
  assert.match(completion("zsh", "coil", commands), /^#compdef coil\n/);
  const fish = completion("fish", "coil", commands);
  assert.match(
    fish,
    /-n '__fish_seen_subcommand_from ipam' -a show -d 'Show what\\'s there'/,
  );
  assert.match(
    fish,
    /-n '__fish_seen_subcommand_from ipam; and __fish_seen_subcommand_from show' -l all -d 'All'/,
  );
});
