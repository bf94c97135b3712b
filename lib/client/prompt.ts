/** How the client asks a person; a command gives it what it has. */

export interface Prompt {
  /** A passphrase or the like, not echoed. undefined: nobody is there to ask. */
  secret(question: string): Promise<string | undefined>;
  /** Yes or no; undefined: nobody is there to ask. */
  confirm(question: string): Promise<boolean | undefined>;
}

export const NOBODY: Prompt = {
  secret: () => Promise.resolve(undefined),
  confirm: () => Promise.resolve(undefined),
};
