"""Operations: what users can ask for. Each is one short file: guards first, then one transaction."""
