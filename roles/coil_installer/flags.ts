import {
  defineFlags,
  type FlagSpec,
  LOGGING_FLAGS,
  type LoggingChoice,
  loggingChoice,
  type ParsedFlags,
  parseFlags,
  type ProgramInfo,
  refuseCommandLine,
} from "../../lib/flags/mod.ts";
import type { InstallRequest } from "./plan/request.ts";
import { DEFAULT_CONF_NAME } from "./plan/target.ts";
import type { UninstallRequest } from "./uninstall.ts";

const FLAGS = defineFlags({
  "conf-name": {
    type: "string",
    default: DEFAULT_CONF_NAME,
    check: (text) =>
      /^[A-Za-z0-9_.-]+\.conflist$/.test(text)
        ? undefined
        : 'needs a file name that ends in ".conflist", without a directory',
    help: "Name of the network configuration's file ($CNI_CONF_NAME)",
  },
  "etc-dir": {
    type: "string",
    default: "/host/etc/cni/net.d",
    check: checkDirectory,
    help: "The host's directory of network configurations ($CNI_ETC_DIR)",
  },
  "bin-dir": {
    type: "string",
    default: "/host/opt/cni/bin",
    check: checkDirectory,
    help: "The host's directory of CNI plugins ($CNI_BIN_DIR)",
  },
  "coil-path": {
    type: "string",
    help: "Executable to install, instead of the running one ($COIL_PATH)",
  },
  "netconf": {
    type: "string",
    help: "Network configuration, as JSON ($CNI_NETCONF)",
  },
  "netconf-file": {
    type: "string",
    help:
      "File with the network configuration, unless --netconf is given ($CNI_NETCONF_FILE)",
  },
  "plugins": {
    type: "enum",
    default: "coil",
    values: ["coil", "coil,coordinator", "coordinator"],
    help:
      "Plugins to install. coordinator is a link to coil; another program of that name is kept. coordinator alone needs no network configuration, and none is written ($COIL_PLUGINS)",
  },
  "chain": {
    type: "bool",
    help:
      "Add coil to another network's configuration on the node; the given configuration has only coil ($CNI_CHAIN)",
  },
  "prepare-egress": {
    type: "bool",
    help:
      "Load the kernel modules for egress tunnels, if permitted ($COIL_PREPARE_EGRESS)",
  },
  "others": {
    type: "enum",
    default: "keep",
    values: ["keep", "disable"],
    help:
      "What to do with other networks' configurations that sort before ours, and with another program called coordinator; uninstall restores disabled ones",
  },
  "keep-config": {
    type: "bool",
    help: "Uninstall: keep the network configuration",
  },
  "keep-executable": {
    type: "bool",
    help: "Uninstall: keep the plugin",
  },
  "dry-run": {
    type: "bool",
    help: "Only show what would be done",
  },
  ...LOGGING_FLAGS,
});

/** Variables that stand for flags. All but the last three are upstream's, which has no flags. */
const VARIABLES: Readonly<Record<string, string>> = {
  "conf-name": "CNI_CONF_NAME",
  "etc-dir": "CNI_ETC_DIR",
  "bin-dir": "CNI_BIN_DIR",
  "coil-path": "COIL_PATH",
  "netconf": "CNI_NETCONF",
  "netconf-file": "CNI_NETCONF_FILE",
  "plugins": "COIL_PLUGINS",
  "chain": "CNI_CHAIN",
  "prepare-egress": "COIL_PREPARE_EGRESS",
};

/** The flags of coil-installer, for documentation and completion. */
export const INSTALLER_FLAGS: FlagSpec = FLAGS;

export type Command = "install" | "uninstall";

export type InstallerOptions =
  & { readonly logging: LoggingChoice; readonly command: Command }
  & InstallRequest
  & UninstallRequest;

/** Where the command line and the environment come from. */
export interface InstallerInput {
  readonly args: readonly string[];
  readonly env: (name: string) => string | undefined;
}

/** Reads command line and environment; flags win. Prints and exits on `--help` and mistakes. */
export function parseInstallerFlags(
  { args, env }: InstallerInput,
  info: ProgramInfo,
): InstallerOptions {
  // Upstream's installer, unlike its daemons, has -v for the version.
  const words = args.map((arg) => arg === "-v" ? "--version" : arg);
  const { given } = parseFlags(FLAGS, words, info);
  const fromEnv = Object.entries(VARIABLES).flatMap(([flag, variable]) => {
    const value = env(variable) ?? "";
    // A file that was asked for by flag is not passed over for the variable.
    const isPassedOver = flag === "netconf" && given.has("netconf-file");
    if (value === "" || given.has(flag) || isPassedOver) return [];
    return [`--${flag}=${value}`];
  });
  const parsed = parseFlags(FLAGS, [...fromEnv, ...words], info);
  const { values } = parsed;
  return {
    logging: loggingChoice(values, parsed.given),
    command: readCommand(parsed, info),
    confName: parsed.given.has("conf-name") ? values["conf-name"] : undefined,
    etcDirectory: withoutSlash(values["etc-dir"]),
    binDirectory: withoutSlash(values["bin-dir"]),
    coilPath: values["coil-path"],
    netconf: values["netconf"],
    netconfFile: values["netconf-file"],
    coordinator: values["plugins"] !== "coil",
    configures: values["plugins"] !== "coordinator",
    chain: values["chain"],
    prepareEgress: values["prepare-egress"],
    others: values["others"],
    keepConfig: values["keep-config"],
    keepExecutable: values["keep-executable"],
    dryRun: values["dry-run"],
  };
}

function readCommand(
  { positionals, given }: Pick<
    ParsedFlags<typeof FLAGS>,
    "positionals" | "given"
  >,
  info: ProgramInfo,
): Command {
  const [word = "install", ...more] = positionals;
  const [extra] = more;
  if (extra !== undefined) {
    return refuseCommandLine(`unexpected argument: ${extra}`, info);
  }
  if (word !== "install" && word !== "uninstall") {
    return refuseCommandLine(`unknown command: ${word}`, info);
  }
  const misplaced = ["keep-config", "keep-executable"]
    .find((flag) => given.has(flag));
  if (word === "install" && misplaced !== undefined) {
    return refuseCommandLine(`--${misplaced} is for uninstall only`, info);
  }
  return word;
}

function checkDirectory(text: string): string | undefined {
  return text.startsWith("/") ? undefined : "needs an absolute path";
}

function withoutSlash(path: string): string {
  return path.replace(/(?<=.)\/+$/, "");
}
