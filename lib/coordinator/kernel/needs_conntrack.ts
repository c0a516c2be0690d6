import { CniError, ErrorCode } from "../../cni/mod.ts";
import { NetlinkError } from "../../netlink/mod.ts";

/** Whether the kernel refuses the marks of answers because it has no nf_tables, or none that knows connections. */
export function lacksConntrack(error: unknown): boolean {
  return error instanceof NetlinkError &&
    ["ENOENT", "EOPNOTSUPP", "EPROTONOSUPPORT"].includes(error.code);
}

/** What to do about it. */
export function needsConntrack(cause: unknown): CniError {
  return new CniError(
    "cannot mark connections from the host: the kernel refuses a table of nf_tables",
    {
      code: ErrorCode.INTERNAL,
      details:
        "the node's kernel needs nf_tables with connection tracking (CONFIG_NF_TABLES_INET, CONFIG_NFT_CT): load module nft_ct, or use a kernel that has it",
      cause,
    },
  );
}
