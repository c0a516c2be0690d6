/** Selects the pods that have not ended, as a field selector. */
export const LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed";
