// @ts-check
/** What the kinds of jobs are called. */

/** @type {Record<string, string>} */
export const JOB_KINDS = {
  index_document: "index",
  prepare_root: "list",
  delete_subtree: "delete",
  delete_base: "delete",
  reindex_subtree: "reindex",
  index_title: "title",
  preview_chunks: "preview",
  move_items: "move",
  sync_connector: "sync",
  sync_access: "permissions",
  deliver_events: "deliver",
  analyse_assets: "images",
  check_file_processing_result: "convert",
  export_base: "export",
  import_base: "import",
  cancel_conversion: "cancel a conversion",
  tidy_base: "compact",
  update_index: "update the search engine",
  sweep_index: "clean the search engine",
  move_index: "move the index",
  swap_embedder: "change of embedder",
  remove_chunk_set: "remove old vectors",
  reconcile: "reconcile",
  find_due: "find what to check",
  refresh_documents: "check for changes",
  refresh_container: "check for changes",
};
