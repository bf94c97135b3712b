/** The server's listen address: configured at the start, complete once it is bound. */
import { type ListenAddress, parseAddress } from "../config/address.ts";

export class OwnAddress {
  readonly asked: ListenAddress;
  #port: number | undefined;

  /** Throws `config_invalid` for a text that is not an address. */
  constructor(text: string) {
    this.asked = parseAddress(text, "--addr");
  }

  bind(port: number): void {
    this.#port = port;
  }

  get bound(): ListenAddress & { port: number } {
    if (this.#port !== undefined) return { ...this.asked, port: this.#port };
    throw new Error("the server's address was asked for before it was bound");
  }
}
