/** Version of Coil that every program prints. */
export const VERSION = "0.1.0";
